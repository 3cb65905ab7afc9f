"""A real SLURM on this machine, for tests: ``python tests/slurm/cluster.py up | down | restart-controller``.

Needs root and the Debian packages ``slurm-wlm munge`` (for ``--accounting`` also ``slurmdbd mariadb-server``), and no
systemd. Everything lives in one folder, listens on the loopback device, and is stopped by pid file. Each node is a
slurmd of its own with its own port; it claims 8 CPUs and 8 GPUs, whatever the machine has (the GPUs are device files
that behave like /dev/null). A requeued job starts after some seconds instead of two minutes (``cred_expire``).
"""

from __future__ import annotations

import argparse
import contextlib
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from slurm_processes import alive, end, environment_of, name_of, parent_of, pids, wait

NEEDED = ("slurmctld", "slurmd", "munged", "sbatch")
NEEDED_FOR_ACCOUNTING = ("slurmdbd", "mariadbd")
_SBIN = f"{os.environ.get('PATH', '')}:/usr/local/sbin:/usr/sbin:/sbin"
_DATABASE = "slurm_acct_db"


def missing(accounting: bool = False) -> list[str]:
    """Programs that are not installed."""
    wanted = (*NEEDED, *NEEDED_FOR_ACCOUNTING) if accounting else NEEDED
    return [name for name in wanted if shutil.which(name, path=_SBIN) is None]


@dataclass
class Cluster:
    """``port``: the first of ``4 + nodes`` free ports. ``grace``: seconds that a job keeps after it was preempted.
    ``job_age``: seconds after which slurmctld forgets a job that ended."""

    folder: Path
    port: int = 16817
    nodes: int = 1
    accounting: bool = False
    cpus: int = 8
    gpus: int = 8
    memory: int = 16000
    grace: int = 10
    kill_wait: int = 5
    max_array: int = 1001
    job_age: int = 300
    enforce_memory: bool = False
    extra: Sequence[str] = field(default=())

    @property
    def conf(self) -> Path:
        return self.folder / "etc" / "slurm.conf"

    @property
    def environment(self) -> dict[str, str]:
        return {**os.environ, "SLURM_CONF": str(self.conf), "PATH": _SBIN}

    def names(self) -> list[str]:
        return [f"node{number}" for number in range(self.nodes)]

    def start(self) -> None:
        absent = missing(self.accounting)
        if absent or os.geteuid():
            raise RuntimeError(f"not installed: {', '.join(absent)}" if absent else "starting SLURM needs root")
        self._folders()
        self._start_munge()
        self._write_conf()
        if self.accounting:
            self._start_database()
        self.start_controller()
        for name in self.names():
            self.start_node(name)
        for name in self.names():
            wait(30, lambda name=name: self.node_state(name) in ("idle", "mixed", "allocated"), f"{name} to be idle")

    def stop(self, *, wipe: bool = False) -> None:
        """Cancel every job, then stop what :meth:`start` started. Never by name."""
        if alive(self._pid_file("slurmctld")):
            self._cancel_all()
        for name in self.names():
            end(self._pid_file(name))
        for name in ("slurmctld", "slurmdbd"):
            end(self._pid_file(name))
        end(self.folder / "mysqlrun" / "mariadbd.pid")
        end(self.folder / "munge" / "run" / "munged.pid")
        if wipe:
            shutil.rmtree(self.folder, ignore_errors=True)

    def run(self, *command: str, timeout: float = 30) -> str:
        """Standard output of a SLURM command."""
        done = subprocess.run(
            command, env=self.environment, capture_output=True, text=True, timeout=timeout, check=False
        )
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")
        return done.stdout

    def start_controller(self) -> None:
        if not alive(self._pid_file("slurmctld")):
            self._daemon("slurmctld", "-i")
        wait(30, lambda: self._succeeds("scontrol", "ping") and "UP" in self.run("scontrol", "ping"), "slurmctld")

    def kill_controller(self) -> None:
        end(self._pid_file("slurmctld"), signal.SIGKILL)

    def start_node(self, name: str) -> None:
        if not alive(self._pid_file(name)):
            self._daemon("slurmd", "-N", name)

    def kill_node(self, name: str) -> None:
        """Only the daemon: its jobs go on."""
        end(self._pid_file(name), signal.SIGKILL)

    def lose_node(self, name: str) -> None:
        """As if the machine lost power: the daemon, its job steps and all their processes end at once."""
        self.kill_node(name)
        marks = (f"SLURMD_NODENAME={name}\0", f"SLURM_CONF={self.conf}\0")
        lost = {pid for pid in pids() if all(mark in environment_of(pid) for mark in marks)}
        daemons = {parent_of(pid) for pid in lost}
        for pid in [*(pid for pid in daemons if name_of(pid) == "slurmstepd"), *lost]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def node_state(self, name: str) -> str:
        with contextlib.suppress(RuntimeError, subprocess.TimeoutExpired):
            return self.run("sinfo", "-h", "-N", "-n", name, "-o", "%T").split("\n")[0].strip("*~# ")
        return "unknown"

    def _pid_file(self, name: str) -> Path:
        return self.folder / "run" / f"{name}.pid"

    def _succeeds(self, *command: str) -> bool:
        try:
            self.run(*command)
            return True
        except (RuntimeError, subprocess.TimeoutExpired):
            return False

    def _daemon(self, *command: str, **environment: str) -> None:
        log = self.folder / "log" / f"{command[0]}.start"
        with open(log, "ab") as file:
            subprocess.run(command, env={**self.environment, **environment}, stdout=file, stderr=file, check=True)

    def _cancel_all(self) -> None:
        with contextlib.suppress(RuntimeError, subprocess.TimeoutExpired):
            jobs = sorted(set(self.run("squeue", "-h", "-o", "%A").split()))
            if jobs:
                self.run("scancel", *jobs)
                wait(20, lambda: not self.run("squeue", "-h").strip(), "jobs to end", required=False)

    def _folders(self) -> None:
        for name in ("etc", "run", "log", "state", "dev", "munge", *(f"spool-{node}" for node in self.names())):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        self.folder.chmod(0o755)
        munge = pwd.getpwnam("munge")
        for name, mode in (("log", 0o700), ("run", 0o755), ("etc", 0o700), ("lib", 0o700)):
            path = self.folder / "munge" / name
            path.mkdir(exist_ok=True)
            path.chmod(mode)
            os.chown(path, munge.pw_uid, munge.pw_gid)
        os.chown(self.folder / "munge", munge.pw_uid, munge.pw_gid)
        key = self.folder / "munge" / "etc" / "munge.key"
        if not key.exists():
            key.write_bytes(os.urandom(1024))
            key.chmod(0o400)
            os.chown(key, munge.pw_uid, munge.pw_gid)
        for number in range(self.gpus):
            device = self.folder / "dev" / f"nvidia{number}"
            if not device.exists():
                os.mknod(device, 0o600 | 0o020000, os.makedev(1, 3))

    def _start_munge(self) -> None:
        munge = self.folder / "munge"
        if alive(munge / "run" / "munged.pid"):
            return
        command = ["setpriv", "--reuid=munge", "--regid=munge", "--clear-groups", "munged", "--force"]
        command += [f"--key-file={munge}/etc/munge.key", f"--socket={munge}/run/munge.socket"]
        command += [f"--pid-file={munge}/run/munged.pid", f"--log-file={munge}/log/munged.log"]
        self._daemon(*command, f"--seed-file={munge}/lib/munged.seed")
        wait(10, (munge / "run" / "munge.socket").exists, "munged")

    def _write_conf(self) -> None:
        host, folder = socket.gethostname().split(".")[0], self.folder
        lines = [
            "ClusterName=test",
            f"FirstJobId={int(time.time()) % 10_000_000 + 1}",
            f"SlurmctldHost={host}(127.0.0.1)",
            "SlurmUser=root",
            "SlurmdUser=root",
            "AuthType=auth/munge",
            f"AuthInfo=socket={folder}/munge/run/munge.socket,cred_expire=6",
            "CredType=cred/munge",
            f"SlurmctldPort={self.port}",
            f"SlurmctldPidFile={folder}/run/slurmctld.pid",
            f"SlurmdPidFile={folder}/run/%n.pid",
            f"SlurmctldLogFile={folder}/log/slurmctld.log",
            f"SlurmdLogFile={folder}/log/%n.log",
            f"StateSaveLocation={folder}/state",
            f"SlurmdSpoolDir={folder}/spool-%n",
            "ProctrackType=proctrack/linuxproc",
            "TaskPlugin=task/none",
            "JobAcctGatherType=jobacct_gather/linux",
            "JobAcctGatherFrequency=5",
            "MpiDefault=none",
            "SwitchType=switch/none",
            "ReturnToService=2",
            "MailProg=/bin/true",
            "PropagateResourceLimits=NONE",
            "SchedulerType=sched/backfill",
            "SchedulerParameters=sched_interval=1,sched_min_interval=0,bf_interval=1,batch_sched_delay=0",
            "SelectType=select/cons_tres",
            *self._memory_lines(),
            f"MinJobAge={self.job_age}",
            f"KillWait={self.kill_wait}",
            "CompleteWait=0",
            "SlurmctldTimeout=30",
            "SlurmdTimeout=10",
            f"MaxArraySize={self.max_array}",
            "JobRequeue=1",
            "PreemptType=preempt/partition_prio",
            "PreemptMode=REQUEUE",
            "GresTypes=gpu",
            "SlurmdParameters=config_overrides",
            *self._accounting_lines(),
        ]
        for number, name in enumerate(self.names()):
            lines.append(
                f"NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={self.port + 4 + number} "
                f"CPUs={self.cpus} Boards=1 SocketsPerBoard=1 CoresPerSocket={self.cpus} ThreadsPerCore=1 "
                f"RealMemory={self.memory} Gres=gpu:{self.gpus} State=UNKNOWN"
            )
        nodes = ",".join(self.names())
        lines.append(
            f"PartitionName=main Nodes={nodes} Default=YES MaxTime=INFINITE PriorityTier=10 GraceTime={self.grace}"
        )
        lines.append(f"PartitionName=urgent Nodes={nodes} MaxTime=INFINITE PriorityTier=100")
        lines.extend(self.extra)
        self.conf.write_text("\n".join(lines) + "\n", encoding="utf-8")
        gres = [f"NodeName={name} Name=gpu File={folder}/dev/nvidia[0-{self.gpus - 1}]" for name in self.names()]
        (folder / "etc" / "gres.conf").write_text("\n".join(gres) + "\n", encoding="utf-8")

    def _memory_lines(self) -> list[str]:
        """Without control groups: SLURM looks at a job's memory every few seconds and kills it above its limit."""
        if not self.enforce_memory:
            return ["SelectTypeParameters=CR_Core"]
        return ["SelectTypeParameters=CR_Core_Memory", "DefMemPerCPU=1000", "JobAcctGatherParams=OverMemoryKill"]

    def _accounting_lines(self) -> list[str]:
        if not self.accounting:
            return ["AccountingStorageType=accounting_storage/none"]
        return [
            "AccountingStorageType=accounting_storage/slurmdbd",
            "AccountingStorageHost=127.0.0.1",
            f"AccountingStoragePort={self.port + 2}",
            f"AccountingStoragePass={self.folder}/munge/run/munge.socket",
            "AccountingStorageTRES=gres/gpu",
        ]

    def _start_database(self) -> None:
        folder, user = self.folder, pwd.getpwnam("mysql")
        for name in ("mysql", "mysqlrun"):
            (folder / name).mkdir(exist_ok=True)
            os.chown(folder / name, user.pw_uid, user.pw_gid)
        if not (folder / "mysql" / "mysql").exists():
            self._daemon("mysql_install_db", "--user=mysql", f"--datadir={folder}/mysql", "--skip-test-db")
        client = ["mariadb", "--no-defaults", "-uroot", "-S", f"{folder}/mysqlrun/s.sock", "-e"]
        if not alive(folder / "mysqlrun" / "mariadbd.pid"):
            with open(folder / "log" / "mariadb.log", "ab") as log:
                subprocess.Popen(
                    [
                        *("mariadbd", "--no-defaults", "--user=mysql", f"--datadir={folder}/mysql"),
                        *(f"--socket={folder}/mysqlrun/s.sock", f"--pid-file={folder}/mysqlrun/mariadbd.pid"),
                        *("--skip-networking", "--innodb-buffer-pool-size=64M", "--innodb-lock-wait-timeout=900"),
                        "--innodb-flush-log-at-trx-commit=2",
                    ],
                    env=self.environment,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
        wait(60, lambda: self._succeeds(*client, "select 1"), "mariadbd")
        self.run(
            *client,
            f"create database if not exists {_DATABASE};"
            "create user if not exists 'slurm'@'localhost' identified by 'slurm';"
            f"grant all on {_DATABASE}.* to 'slurm'@'localhost';",
        )
        content = [
            "AuthType=auth/munge",
            f"AuthInfo=socket={folder}/munge/run/munge.socket",
            f"DbdHost={socket.gethostname().split('.')[0]}",
            "DbdAddr=127.0.0.1",
            f"DbdPort={self.port + 2}",
            "SlurmUser=root",
            f"PidFile={folder}/run/slurmdbd.pid",
            f"LogFile={folder}/log/slurmdbd.log",
            "StorageType=accounting_storage/mysql",
            "StorageHost=localhost",
            "StorageUser=slurm",
            "StoragePass=slurm",
            f"StorageLoc={_DATABASE}",
        ]
        conf = folder / "etc" / "slurmdbd.conf"
        conf.write_text("\n".join(content) + "\n", encoding="utf-8")
        conf.chmod(0o600)
        if not alive(self._pid_file("slurmdbd")):
            self._daemon("slurmdbd", MYSQL_UNIX_PORT=f"{folder}/mysqlrun/s.sock")
        wait(60, lambda: self._succeeds("sacctmgr", "-n", "show", "cluster"), "slurmdbd")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=("up", "down", "restart-controller"))
    default = os.environ.get("SLURM_TESTDIR") or os.path.join(tempfile.gettempdir(), "dara-slurm")
    parser.add_argument("--folder", type=Path, default=Path(default), help="state of the cluster (%(default)s)")
    parser.add_argument("--port", type=int, default=16817, help="first of 4 + nodes ports (%(default)s)")
    parser.add_argument("--nodes", type=int, default=1)
    parser.add_argument("--accounting", action="store_true", help="MariaDB and slurmdbd, so that sacct answers")
    parser.add_argument("--wipe", action="store_true", help="with down: remove the folder")
    args = parser.parse_args()
    cluster = Cluster(args.folder.absolute(), args.port, args.nodes, args.accounting)
    if args.action == "up":
        cluster.start()
        print(f"export SLURM_CONF={cluster.conf}")
    elif args.action == "down":
        cluster.stop(wipe=args.wipe)
    else:
        cluster.kill_controller()
        cluster.start_controller()
    return 0


if __name__ == "__main__":
    sys.exit(main())
