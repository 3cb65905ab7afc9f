"""Started as a script: shuts itself into namespaces and limits, then becomes the program it was given.

Standard library alone, and nothing of the harness: it runs before and outside of everything else. The only argument is
a JSON object, see :class:`harness.evaluation.sandbox.Sandbox`. The program becomes process 1 of its own PID namespace,
so that nothing it starts outlives it; it runs as an unprivileged user, sees only the folders it was given (read-only),
an empty writable ``/sandbox`` and ``/tmp`` of bounded size, and no network device but a loopback that is down.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import platform
import resource
import signal
import sys
from typing import Any

NEW_NAMESPACES = 0x10000000 | 0x00020000 | 0x40000000 | 0x20000000 | 0x08000000 | 0x04000000  # user mnt net pid ipc uts
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = (
    1,
    2,
    4,
    8,
    32,
    4096,
    16384,
    1 << 18,
)
MNT_DETACH = 2
PR_SET_PDEATHSIG, PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS = 1, 24, 38
PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
NOBODY = 65534
DEVICES = ("null", "zero", "urandom")
FAILED = 125
"""Exit status when the sandbox could not be built; the reason is on stderr."""

_libc = ctypes.CDLL(None, use_errno=True)


def _check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def _mount(source: str, target: str, kind: str, flags: int, data: str = "") -> None:
    _check(_libc.mount(source.encode(), target.encode(), kind.encode(), flags, data.encode()), f"mount {target}")


def main(settings: dict[str, Any]) -> int:
    _die_with_parent()
    if settings["mode"] == "inside":
        return _stand_by(settings)
    _first_to_go()
    if settings["mode"] == "bubblewrap":
        os.execv(settings["command"][0], settings["command"])
    if settings["mode"] == "off":
        os.chdir(settings["folder"])
        _limit(settings["limits"], ("processes",))
        os.execve(settings["argv"][0], settings["argv"], settings["environment"])
    unshared, mapped = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        _guarded(lambda: _inside(settings, unshared, mapped))
    os.close(unshared[1])
    os.close(mapped[0])
    if os.read(unshared[0], 1):
        _map_users(child)
        os.write(mapped[1], b"x")
    os.close(mapped[1])
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: os.kill(child, signal.SIGKILL))
    return _status(child)


def _stand_by(settings: dict[str, Any]) -> int:
    """Process 1 of bubblewrap's namespace: it shares a user with bubblewrap, so that it dies with it, and all with it;
    the program is its child and may be nobody."""
    child = os.fork()
    if child == 0:
        _guarded(lambda: _run(settings))
    os.close(0)
    os.close(1)
    while True:
        ended, status = os.wait()
        if ended == child:
            return _exit_code(status)


def _guarded(action: Any) -> None:
    try:
        action()
    except BaseException as error:
        with contextlib.suppress(OSError):
            os.write(2, f"sandbox: {error}\n".encode())
    os._exit(FAILED)


def _status(child: int) -> int:
    return _exit_code(os.waitpid(child, 0)[1])


def _exit_code(status: int) -> int:
    return 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def _map_users(child: int) -> None:
    """Root outside: the mounts are made as root, the program runs as nobody. Anyone else is nobody inside."""
    user, group = os.getuid(), os.getgid()
    if user == 0:
        maps = {"uid_map": f"0 0 1\n{NOBODY} {NOBODY} 1\n", "gid_map": f"0 0 1\n{NOBODY} {NOBODY} 1\n"}
    else:
        maps = {"setgroups": "deny", "uid_map": f"{NOBODY} {user} 1\n", "gid_map": f"{NOBODY} {group} 1\n"}
    for name, content in maps.items():
        with open(f"/proc/{child}/{name}", "w", encoding="ascii") as file:
            file.write(content)


def _die_with_parent() -> None:
    """Needed again after each change of credentials, which undoes it."""
    _check(_libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0), "death signal")


def _inside(settings: dict[str, Any], unshared: tuple[int, int], mapped: tuple[int, int]) -> None:
    _die_with_parent()
    os.close(mapped[1])
    _check(_libc.unshare(NEW_NAMESPACES), "unshare")
    _die_with_parent()
    os.write(unshared[1], b"x")
    if not os.read(mapped[0], 1):
        raise OSError("the user map was not written")
    os.close(unshared[0])
    os.close(unshared[1])
    os.close(mapped[0])
    first = os.fork()
    if first == 0:
        _guarded(lambda: _become(settings))
    os._exit(_status(first))


def _become(settings: dict[str, Any]) -> None:
    _build_root(settings["folder"], settings["readable"], settings["limits"])
    _run(settings)


def _run(settings: dict[str, Any]) -> None:
    """Inside the sandbox: give up what is left of privileges, set the limits, become the program."""
    if os.getuid() == 0:
        os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
    for capability in range(64):
        _libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)
    _check(_libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs")
    if os.getuid() == 0:
        os.setresuid(NOBODY, NOBODY, NOBODY)
    _die_with_parent()
    _limit(settings["limits"], ())
    os.chdir("/sandbox")
    os.execve(settings["argv"][0], settings["argv"], settings["environment"])


def _build_root(base: str, readable: list[str], limits: dict[str, int]) -> None:
    _mount("none", "/", "", MS_REC | MS_PRIVATE)
    _mount("tmpfs", base, "tmpfs", MS_NOSUID | MS_NODEV, "size=1m,mode=755")
    for name in ("sandbox", "tmp"):
        os.mkdir(f"{base}/{name}")
        options = f"size={limits['disk']},nr_inodes={limits['files']},mode=777"
        _mount("tmpfs", f"{base}/{name}", "tmpfs", MS_NOSUID | MS_NODEV, options)
    for path in sorted(readable, key=len):
        _show(base, path)
    for name in DEVICES:
        with contextlib.suppress(OSError):
            os.makedirs(f"{base}/dev", exist_ok=True)
            with open(f"{base}/dev/{name}", "w"):
                pass
            _mount(f"/dev/{name}", f"{base}/dev/{name}", "", MS_BIND)
    os.mkdir(f"{base}/old")
    _check(_libc.syscall(PIVOT_ROOT[platform.machine()], base.encode(), f"{base}/old".encode()), "pivot_root")
    os.chdir("/")
    _check(_libc.umount2(b"/old", MNT_DETACH), "umount")
    os.rmdir("/old")
    _mount("none", "/", "", MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV)


def _show(base: str, path: str) -> None:
    """``path`` under the same name below ``base``, read-only."""
    target = base + path
    if os.path.islink(path):
        os.makedirs(os.path.dirname(target), exist_ok=True)
        if not os.path.lexists(target):
            os.symlink(os.readlink(path), target)
        return
    if os.path.isdir(path):
        os.makedirs(target, exist_ok=True)
    else:
        os.makedirs(os.path.dirname(target), exist_ok=True)
        with open(target, "w"):
            pass
    _mount(path, target, "", MS_BIND)
    # A remount in a user namespace must keep the flags that the outer mount has.
    kept = os.statvfs(path).f_flag & (MS_NOSUID | MS_NODEV | MS_NOEXEC | 1024 | 2048 | 4096 | (1 << 21))
    flags = kept & (MS_NOSUID | MS_NODEV | MS_NOEXEC | 1024 | 2048)
    flags |= (1 << 21) if kept & 4096 else 0
    _mount("none", target, "", MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV | flags)


def _first_to_go() -> None:
    """When memory runs out on the machine, the kernel ends what runs in here before anything else."""
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
        file.write("1000")


def _limit(limits: dict[str, int], without: tuple[str, ...]) -> None:
    kinds = {
        "memory": resource.RLIMIT_AS,
        "processes": resource.RLIMIT_NPROC,
        "file_size": resource.RLIMIT_FSIZE,
        "open_files": resource.RLIMIT_NOFILE,
        "cpu": resource.RLIMIT_CPU,
    }
    for name, kind in kinds.items():
        if name in limits and name not in without:
            resource.setrlimit(kind, (limits[name], limits[name]))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


if __name__ == "__main__":
    try:
        code = main(json.loads(sys.argv[1]))
    except Exception as failure:
        print(f"sandbox: {failure}", file=sys.stderr)
        code = FAILED
    sys.exit(code)
