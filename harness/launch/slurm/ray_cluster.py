"""Ray over the nodes of one job: a head here (the first node), a worker on each other node, started through srun.

``with ray_cluster(...) as variables:`` waits until every node and GPU has joined; on every way out all of it stops.
Ports are free ones of the head, addresses are those by which the nodes reach it, so several jobs can share a node. A
token of its own keeps everybody else out: without one any user of the network could run code as this one.
Run as a module it is the check, ``python -m harness.launch.slurm.ray_cluster NODES GPUS SECONDS``, or the worker on
another node, ``... worker ARGUMENTS OF ray start``.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from harness.errors import UserError
from harness.launch.slurm.queue import NoAnswerError, run

JOIN_SECONDS = 300.0
PATIENCE = {
    "RAY_raylet_start_wait_time_s": "300",
    "RAY_gcs_server_port_wait_time_s": "300",
    "RAY_agent_register_timeout_ms": "300000",
}
"""Variables for Ray's own limits on its start, of 10 to 30 s each: too short on a node that is loaded or slow."""

_HELPERS = (
    "dashboard-agent-listen-port",
    "dashboard-agent-grpc-port",
    "metrics-export-port",
    "runtime-env-agent-port",
)
_WORKER = "worker"
_STOP_SECONDS = 15.0
_POLL_SECONDS = 0.5
_JOINED, _MISSING, _UNREACHABLE = 0, 3, 4


@contextlib.contextmanager
def ray_cluster(nodes: int, gpus_per_node: int, *, stopping: Callable[[], bool]) -> Iterator[dict[str, str] | None]:
    """Yields what a driver needs in its environment (RAY_ADDRESS, the token); None: ``stopping()`` came true before.

    Raises :class:`UserError` when a node or GPU does not join in time, or part of Ray ends.
    """
    hosts = hostnames(os.environ)
    if len(hosts) != nodes:
        raise UserError(f"the job has {len(hosts)} nodes ({', '.join(hosts)}), {nodes} were asked for")
    address = _address_towards(hosts[-1])
    port, client_port = _free_ports(2)
    job = os.environ.get("SLURM_JOB_ID", str(os.getpid()))
    folder = Path(tempfile.gettempdir()) / f"ray-{os.getuid()}-{job}"
    cpus = os.environ.get("SLURM_CPUS_PER_TASK") or os.environ.get("SLURM_CPUS_ON_NODE", "1")
    common = ["--block", "--disable-usage-stats", f"--num-cpus={cpus}", f"--num-gpus={gpus_per_node}"]
    common += ["--min-worker-port=0", "--max-worker-port=0"]
    head = [*_ray(), "start", "--head", f"--node-ip-address={address}", f"--port={port}", f"--temp-dir={folder}"]
    head += [f"--ray-client-server-port={client_port}", "--include-dashboard=false", *helper_ports(), *common]
    worker = [sys.executable, "-m", "harness.launch.slurm.ray_cluster", _WORKER, f"--address={address}:{port}", *common]
    srun = _srun(hosts[1:], gpus_per_node)
    access = {"RAY_ADDRESS": f"{address}:{port}", "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    environment = {**PATIENCE, **os.environ, **access}
    starting = {key: value for key, value in environment.items() if key != "RAY_ADDRESS"}
    processes: list[subprocess.Popen[bytes]] = []
    try:
        print(f"ray: head on {hosts[0]} ({address}:{port}), workers on {', '.join(hosts[1:])}", flush=True)
        processes.append(_start(head, starting))
        ready = _wait_until_joined(environment, 1, gpus_per_node, processes, stopping)
        if ready:
            processes.append(_start([*srun, *worker], starting))
            ready = _wait_until_joined(environment, nodes, nodes * gpus_per_node, processes, stopping)
        yield access if ready else None
    finally:
        for process in reversed(processes):
            _stop(process)
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            command = [*_srun(hosts[1:], 0), "rm", "-rf", str(folder)]
            subprocess.run(command, timeout=30, check=False, stderr=subprocess.DEVNULL)
        shutil.rmtree(folder, ignore_errors=True)


def hostnames(environment: Mapping[str, str]) -> list[str]:
    """The nodes of this job, the one that runs the batch script first."""
    names = run("scontrol", "show", "hostnames", environment.get("SLURM_JOB_NODELIST", "")).split()
    first = environment.get("SLURMD_NODENAME", names[0])
    return [first, *(name for name in names if name != first)]


def _ray() -> list[str]:
    return [sys.executable, "-m", "ray.scripts.scripts"]


def _srun(hosts: Sequence[str], gpus_per_node: int) -> list[str]:
    """One task on each of these nodes, beside whatever else the job does there."""
    command = ["srun", f"--nodes={len(hosts)}", f"--ntasks={len(hosts)}", "--ntasks-per-node=1", "--overlap"]
    command += [f"--nodelist={','.join(hosts)}", "--mem=0", "--kill-on-bad-exit=1", "--export=ALL"]
    return [*command, f"--gpus-per-node={gpus_per_node}"] if gpus_per_node else [*command, "--gres=none"]


def _address_towards(host: str) -> str:
    """This node's address as ``host`` sees it: of several network interfaces the one that leads there."""
    target = host
    with contextlib.suppress(NoAnswerError):
        text = run("scontrol", "--oneliner", "show", "node", host)
        found = [item.partition("=")[2] for item in text.split() if item.startswith("NodeAddr=")]
        target = found[0] if found else host
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((target, 9))
        except OSError as error:
            raise UserError(f"node {host} ({target}) cannot be reached from {socket.gethostname()}: {error}") from error
        return str(probe.getsockname()[0])


def helper_ports() -> list[str]:
    """Arguments of ``ray start`` with free ports of this node for the processes beside Ray's node manager.

    Where they choose a port themselves the node manager waits for it 15 s, a limit that nothing sets, and ends
    (github.com/ray-project/ray/issues/65983). On a loaded node they take longer to start.
    """
    return [f"--{name}={port}" for name, port in zip(_HELPERS, _free_ports(len(_HELPERS)), strict=True)]


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        servers = [stack.enter_context(socket.create_server(("", 0))) for _ in range(count)]
        return [int(server.getsockname()[1]) for server in servers]


def _start(command: Sequence[str], environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, env=environment, start_new_session=True)


def _stop(process: subprocess.Popen[bytes]) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_STOP_SECONDS)


def _wait_until_joined(
    environment: Mapping[str, str],
    nodes: int,
    gpus: int,
    processes: Sequence[subprocess.Popen[bytes]],
    stopping: Callable[[], bool],
) -> bool:
    """False: ``stopping()`` came true. Each attempt to connect is a process of its own: Ray keeps failures in mind."""
    end = time.monotonic() + JOIN_SECONDS
    code = _UNREACHABLE
    while code == _UNREACHABLE and time.monotonic() < end:
        left = max(1.0, end - time.monotonic())
        command = [sys.executable, "-m", "harness.launch.slurm.ray_cluster", str(nodes), str(gpus), str(left)]
        check = subprocess.Popen(command, stdin=subprocess.DEVNULL, env=environment)
        try:
            while check.poll() is None:
                if stopping():
                    return False
                _check_alive(processes)
                time.sleep(_POLL_SECONDS)
        finally:
            if check.poll() is None:
                check.kill()
                check.wait()
        code = check.returncode
    if code != _JOINED:
        raise UserError(f"Ray: not all of {nodes} nodes and {gpus} GPUs joined within {JOIN_SECONDS:.0f} s; see above")
    return True


def _check_alive(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    for process in processes:
        if process.poll() is not None:
            raise UserError(f"Ray ended while it started (exit code {process.returncode}); see the job's output")


def main(argv: Sequence[str] | None = None) -> int:
    """Wait until so many nodes and GPUs are part of the cluster at RAY_ADDRESS; or become a worker of it."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments[0] == _WORKER:
        os.execv(sys.executable, [*_ray(), "start", *arguments[1:], *helper_ports()])
    nodes, gpus, seconds = (float(item) for item in arguments)
    end, alive, found = time.monotonic() + seconds, 0, 0.0
    host, _, port = os.environ["RAY_ADDRESS"].rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=5).close()
    except OSError:
        time.sleep(_POLL_SECONDS)
        return _UNREACHABLE

    import ray

    try:
        ray.init(log_to_driver=False, logging_level="ERROR")
    except (ConnectionError, RuntimeError) as error:
        print(f"ray: not reachable yet ({' '.join(str(error).split())[:200]})", file=sys.stderr)
        return _UNREACHABLE
    while time.monotonic() < end:
        alive = sum(bool(node["Alive"]) for node in ray.nodes())
        found = ray.cluster_resources().get("GPU", 0.0)
        if alive >= nodes and found >= gpus:
            print(f"ray: {alive} nodes, {found:.0f} GPUs", flush=True)
            return _JOINED
        time.sleep(_POLL_SECONDS)
    print(f"ray: {alive} of {nodes:.0f} nodes and {found:.0f} of {gpus:.0f} GPUs joined", file=sys.stderr)
    return _MISSING


if __name__ == "__main__":
    sys.exit(main())
