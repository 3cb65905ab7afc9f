"""The escape corpus: what hostile model text may try, and that none of it gets anywhere."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from harness.errors import UserError
from harness.evaluation.sandbox import BUILDERS, Limits, Sandbox, interpreter

LIMITS = Limits(memory=512 << 20, processes=16, disk=4 << 20, file_size=1 << 20, cpu=2)


@pytest.fixture(scope="module", params=BUILDERS)
def sandbox(request: pytest.FixtureRequest) -> Sandbox:
    problem = Sandbox(request.param).problem()
    if problem:
        pytest.skip(f"no sandbox by {request.param} here: {problem}")
    return Sandbox(request.param, LIMITS)


def run(sandbox: Sandbox, code: str, seconds: float = 20.0) -> tuple[int, str]:
    """(exit status, output) of Python code in the sandbox."""
    program, readable = interpreter(Path(sys.executable))
    process = sandbox.start([program, "-I", "-S", "-c", code], readable)
    try:
        output, errors = process.popen.communicate(timeout=seconds)
        return process.popen.returncode, (output + errors).decode(errors="replace")
    except subprocess.TimeoutExpired:
        return -1, "silent"
    finally:
        process.close()


ESCAPES = {
    "read a file": "print(open({secret!r}).read())",
    "read the password file": "print(open('/etc/passwd').read())",
    "list a home": "import os; print(os.listdir(os.path.dirname({secret!r})))",
    "write beside the harness": "open({secret!r} + '.new', 'w').write('x'); print('escaped')",
    "write into the system": "open('/usr/lib/new', 'w'); print('escaped')",
    "shell": "__import__('os').system('cat {secret} && echo escaped')",
    "read the environment of others": "print(open('/proc/1/environ').read(), 'escaped')",
    "kill a process outside": "import os; os.kill({pid}, 9); print('escaped')",
    "become root": "import os; os.setuid(0); print('escaped')",
    "mount": "import ctypes; assert not ctypes.CDLL(None).mount(b'a', b'/tmp', b'tmpfs', 0, None); print('escaped')",
    "change the root": "import ctypes; assert ctypes.CDLL(None).chroot(b'/tmp') == 0; print('escaped')",
    "connect": "import socket; socket.create_connection(('127.0.0.1', {port}), 2); print('escaped')",
    "kill the first process": "import os; os.kill(1, 9); import time; time.sleep(0.2); print('still here')",
    "fill the disk": "f = open('/sandbox/a', 'wb'); [f.write(bytes(1 << 16)) for _ in range(999)]; print('escaped')",
    "memory bomb": "b = bytearray(4 << 30); print('escaped')",
    "remount the system": "import os, ctypes; c = ctypes.CDLL(None, use_errno=True); "
    "assert c.mount(b'none', b'/usr', None, 32 | 4096, None) == 0; print('escaped')",
    "another user namespace": "import ctypes; assert ctypes.CDLL(None).unshare(0x10000000 | 0x00020000) == 0; "
    "assert ctypes.CDLL(None).mount(b'none', b'/usr', None, 32 | 4096, None) == 0; print('escaped')",
    "see other processes": "import os; print([n for n in os.listdir('/proc') if n.isdigit()], 'escaped')",
}


@pytest.mark.parametrize("name", list(ESCAPES))
def test_escape_is_contained(name: str, sandbox: Sandbox, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("escaped")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        values = {"secret": str(secret), "pid": os.getpid(), "port": listener.getsockname()[1]}
        code = ESCAPES[name]
        for key, value in values.items():
            code = code.replace(f"{{{key}!r}}", repr(value)).replace(f"{{{key}}}", str(value))
        _, output = run(sandbox, code)
    assert "escaped" not in output.replace(str(tmp_path), "").replace("'escaped'", "").replace('"escaped"', "")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["secret"]


def test_an_innocent_program_runs_with_an_empty_environment(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_TOKEN", "hush")
    status, output = run(sandbox, "import os; open('a', 'w').write('x'); print(sorted(os.environ), os.listdir('.'))")
    assert status == 0
    assert "HOME" in output
    assert "SECRET_TOKEN" not in output
    assert "['a']" in output


def test_what_runs_inside_is_the_first_to_go(sandbox: Sandbox) -> None:
    """Many processes within their own limits could still fill a machine's memory: then the kernel ends them first."""
    program, readable = interpreter(Path(sys.executable))
    code = "import time; print('up', flush=True); time.sleep(60)"
    process = sandbox.start([program, "-I", "-S", "-c", code], readable)
    assert process.popen.stdout is not None
    process.popen.stdout.readline()
    try:
        assert Path(f"/proc/{process.popen.pid}/oom_score_adj").read_text().strip() == "1000"
    finally:
        process.close()


def test_fork_bomb_ends_with_its_limit(sandbox: Sandbox) -> None:
    code = """
import os, time
n = 0
try:
    while True:
        if os.fork() == 0:
            time.sleep(9)
        n += 1
except OSError:
    print('forks', n < 20)
"""
    status, output = run(sandbox, code)
    assert (status, output.strip()) == (0, "forks True")


def test_endless_loop_is_ended(sandbox: Sandbox) -> None:
    started = time.monotonic()
    status, _ = run(sandbox, "while True: pass", seconds=60)
    assert status not in (0, -1)
    assert time.monotonic() - started < 60


def processes_with(marker: str) -> list[str]:
    """Running processes that have ``marker`` in their command line, by what /proc says."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if marker.encode() in path.read_bytes():
                found.append(path.parent.name)
        except OSError:
            continue
    return found


def test_close_ends_everything_that_was_started(sandbox: Sandbox, tmp_path: Path) -> None:
    """Also what left its session."""
    program, readable = interpreter(Path(sys.executable))
    marker = f"marker of {tmp_path}"
    code = f"import os, time # {marker}\nif os.fork() == 0: os.setsid()\nprint('up', flush=True)\ntime.sleep(600)"
    process = sandbox.start([program, "-I", "-S", "-c", code], readable)
    assert process.popen.stdout is not None
    process.popen.stdout.readline()
    process.popen.stdout.readline()
    assert len(processes_with(marker)) >= 2
    process.close()
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline and processes_with(marker):
        time.sleep(0.05)
    assert processes_with(marker) == []


def test_an_unknown_mode_names_the_valid_ones() -> None:
    with pytest.raises(UserError, match="sandbox=of is unknown: did you mean 'off'"):
        Sandbox("of")


def test_where_no_sandbox_can_be_built_it_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Sandbox, "problem", lambda self: "forbidden")
    for action in (Sandbox().require, lambda: Sandbox.of("auto")):
        with pytest.raises(UserError, match=r"\(.*forbidden.*\).*sandbox=off if the machine itself is disposable"):
            action()
    Sandbox.of("off").require()


def test_what_works_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Sandbox, "problem", lambda self: "forbidden" if self.mode == "namespaces" else None)
    assert Sandbox.of("auto").mode == "bubblewrap"
    assert Sandbox.of("namespaces").mode == "namespaces"


def test_without_the_program_it_is_no_sandbox(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert Sandbox("bubblewrap").problem() == "bwrap is not installed"


def test_off_still_gives_an_empty_environment_and_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_TOKEN", "hush")
    _, output = run(Sandbox("off", LIMITS), "import os; print(sorted(os.environ), os.listdir('.'))")
    assert "SECRET_TOKEN" not in output
    assert "[]" in output


def test_what_it_may_read_can_lie_below_a_writable_folder(sandbox: Sandbox, tmp_path: Path) -> None:
    (tmp_path / "given").mkdir()
    (tmp_path / "given/text").write_text("hello")
    (tmp_path / "other").write_text("hush")
    program, readable = interpreter(Path(sys.executable))
    code = f"import os; print(open('{tmp_path}/given/text').read(), os.listdir('{tmp_path}'))"
    process = sandbox.start([program, "-I", "-S", "-c", code], [*readable, tmp_path / "given"])
    try:
        output, errors = process.popen.communicate(timeout=60)
    finally:
        process.close()
    assert output.decode().split() == ["hello", "['given']"], errors
