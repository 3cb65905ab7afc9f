"""One owner at a time for a run, on any file system with atomic rename, and no race when a dead owner is replaced.

The lock is a folder ``lock`` that holds one file, ``<nonce>.json``, which names the owner; the nonce is fresh for each
acquisition. Two renames do everything:

* to acquire, a folder made aside is renamed to ``lock``: the rename fails while a (non-empty) ``lock`` stands there;
* to end ownership X (release, or takeover from a dead owner), ``lock`` is renamed to ``.lock-ended-X``: the name
  depends on the nonce that was *seen*, and a second rename to it fails. So of any number of processes that saw X dead
  one ends it, and a late one can never remove the lock of X's successor.

A thread touches the owner's file (the heartbeat). An owner on this machine is dead when its process is; one on another
host when its heartbeat is older than ``STALE_SECONDS``.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import json
import os
import shutil
import threading
import time
import uuid
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from harness.store.files import explained
from harness.store.process import ProcessIdentity, is_alive, this_process

HEARTBEAT_SECONDS = 10.0
STALE_SECONDS = 180.0
_KEEP_ENDED_SECONDS = 86400.0
_TAKEN = (errno.ENOTEMPTY, errno.EEXIST)


class LockBusyError(Exception):
    """Another process works on the run; ``str()`` says which and since when."""


class LockLostError(Exception):
    """This process was taken for dead (its heartbeat stood still) and another one works on the run now."""


@dataclass(frozen=True)
class Owner:
    """Who holds a lock, as last seen. ``age`` is the seconds since the last heartbeat."""

    nonce: str
    name: str
    process: ProcessIdentity
    since: float
    age: float

    @property
    def alive(self) -> bool:
        known = is_alive(self.process)
        return self.age <= STALE_SECONDS if known is None else known

    def __str__(self) -> str:
        return f"{self.name} (pid {self.process.pid} on {self.process.host}, heartbeat {self.age:.0f} s ago)"


def read_owner(folder: Path, *, now: float | None = None) -> Owner | None:
    """The owner named in ``folder/lock``, dead or alive; None without one. ``now``: the file system's clock."""
    lock = folder / "lock"
    for _ in range(5):
        try:
            names = [name for name in os.listdir(lock) if name.endswith(".json")]
            if not names:
                return None
            path = lock / names[0]
            content = json.loads(path.read_bytes())
            age = (time.time() if now is None else now) - path.stat().st_mtime
            return Owner(
                nonce=names[0].removesuffix(".json"),
                name=str(content["name"]),
                process=ProcessIdentity(**content["process"]),
                since=float(content["since"]),
                age=max(0.0, age),
            )
        except FileNotFoundError:
            if not lock.exists():
                return None
        except (ValueError, KeyError, TypeError):
            # Written whole before the rename, so this is damage: an owner nobody can ask, judged by its heartbeat.
            unknown = ProcessIdentity(host="unknown", space="", pid=0, started="")
            with contextlib.suppress(OSError):
                age = max(0.0, time.time() - path.stat().st_mtime)
                return Owner(names[0].removesuffix(".json"), "an unreadable owner", unknown, 0.0, age)
    return None


class RunLock:
    """``with RunLock(folder, "worker"):`` raises :class:`LockBusyError` while a living process holds it."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder = folder
        self._name = name
        self._nonce = ""
        self._stop = threading.Event()
        self._lost = threading.Event()
        self._thread: threading.Thread | None = None
        self.replaced: Owner | None = None
        """The dead owner whose lock was taken over, if any."""

    @property
    def lost(self) -> bool:
        """True once another process has taken the lock over."""
        return self._lost.is_set()

    def check(self) -> None:
        """Raise :class:`LockLostError` if the lock is no longer this process's."""
        if not self._file.exists():
            self._lost.set()
        if self.lost:
            raise LockLostError(f"{self._folder.name}: another process took the run over; this one stops")

    def acquire(self) -> None:
        self._prune()
        while not self._try_acquire():
            pass
        self._thread = threading.Thread(target=self._beat, name="heartbeat", daemon=True)
        self._thread.start()

    def release(self) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        if not self.lost:
            _end(self._folder, self._nonce)

    def __enter__(self) -> RunLock:
        self.acquire()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    @property
    def _file(self) -> Path:
        return self._folder / "lock" / f"{self._nonce}.json"

    def _try_acquire(self) -> bool:
        """One attempt; False: the situation changed meanwhile, look again."""
        nonce = uuid.uuid4().hex
        aside = self._folder / f".lock-new-{nonce}"
        content = {
            "name": self._name,
            "process": dataclasses.asdict(this_process()),
            "since": time.time(),
        }
        with explained(aside):
            aside.mkdir()
            file = aside / f"{nonce}.json"
            file.write_text(json.dumps(content), encoding="utf-8")
            now = file.stat().st_mtime
        try:
            os.rename(aside, self._folder / "lock")
            self._nonce = nonce
            return True
        except OSError as error:
            shutil.rmtree(aside, ignore_errors=True)
            if error.errno not in _TAKEN:
                with explained(self._folder / "lock"):
                    raise
        owner = read_owner(self._folder, now=now)
        if owner is not None:
            if owner.alive:
                raise LockBusyError(f"{self._folder.name} is being worked on by {owner}")
            if _end(self._folder, owner.nonce):
                self.replaced = owner
        return False

    def _beat(self) -> None:
        while not self._stop.wait(HEARTBEAT_SECONDS):
            try:
                os.utime(self._file)
            except FileNotFoundError:
                self._lost.set()
                return
            except OSError:
                continue  # a file system that stalls may come back; if it does not, the lock goes stale as it should

    def _prune(self) -> None:
        """Remove what ended long ago: nobody still acts on having seen those owners."""
        for path in self._folder.glob(".lock-*"):
            with contextlib.suppress(OSError):
                if time.time() - path.stat().st_mtime > _KEEP_ENDED_SECONDS:
                    shutil.rmtree(path, ignore_errors=True)


def _end(folder: Path, nonce: str) -> bool:
    """End ownership ``nonce``; False if somebody else did."""
    try:
        os.rename(folder / "lock", folder / f".lock-ended-{nonce}")
        return True
    except OSError as error:
        if error.errno in (*_TAKEN, errno.ENOENT):
            return False
        with explained(folder / "lock"):
            raise
    return False
