"""A stand-in for the hub and for a file tree of a repository, on the loopback interface.

It speaks what the hub's client asks for: the description of a revision and HEAD / GET (with Range) of its files.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@dataclass
class StandIn:
    """``files``: (repository, revision, path) -> content. ``lies``: content sent in place of the described one.

    ``breaks``: how often a download of a path is cut off at half, before it is served whole.
    """

    files: dict[tuple[str, str, str], bytes] = field(default_factory=dict)
    lies: dict[str, bytes] = field(default_factory=dict)
    breaks: dict[str, int] = field(default_factory=dict)
    requests: list[tuple[str, str, str | None]] = field(default_factory=list)
    address: str = ""

    def put(self, repository: str, path: str, content: bytes, revision: str = COMMIT) -> None:
        self.files[repository, revision, path] = content

    def ranges(self) -> list[str]:
        return [asked for method, _, asked in self.requests if method == "GET" and asked]


@contextlib.contextmanager
def serve(stand_in: StandIn) -> Iterator[StandIn]:
    server = _Server(("127.0.0.1", 0), _handler(stand_in))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    stand_in.address = f"http://127.0.0.1:{server.server_port}"
    try:
        yield stand_in
    finally:
        server.shutdown()
        server.server_close()


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: object, client_address: object) -> None:
        """A client that goes away is part of the tests."""


def _git_blob(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def _handler(stand_in: StandIn) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *arguments: object) -> None:
            pass

        def do_HEAD(self) -> None:
            self._answer()

        def do_GET(self) -> None:
            self._answer()

        def _answer(self) -> None:
            path = unquote(urlsplit(self.path).path).strip("/")
            stand_in.requests.append((self.command, path, self.headers.get("Range")))
            if path.startswith("api/datasets/"):
                self._describe(path.removeprefix("api/datasets/"))
            elif path.startswith("datasets/"):
                repository, _, rest = path.removeprefix("datasets/").partition("/resolve/")
                revision, _, name = rest.partition("/")
                self._send_file(repository, self._commit(repository, revision), name)
            else:
                owner, name, revision, *rest = path.split("/") + [""] * 3
                self._send_file(f"{owner}/{name}", revision, "/".join(part for part in rest if part))

        def _commit(self, repository: str, revision: str) -> str:
            known = [commit for name, commit, _ in stand_in.files if name == repository]
            return known[-1] if revision == "main" and known else revision

        def _describe(self, path: str) -> None:
            repository, _, revision = path.partition("/revision/")
            commit = self._commit(repository, revision or "main")
            names = [key for key in stand_in.files if key[0] == repository]
            if not names:
                self._refuse("RepoNotFound")
                return
            here = {key[2]: stand_in.files[key] for key in names if key[1] == commit}
            if not here:
                self._refuse("RevisionNotFound")
                return
            siblings = []
            for name, content in here.items():
                item = {"rfilename": name, "size": len(content), "blobId": _git_blob(content)}
                if not name.endswith(".jsonl"):
                    digest = hashlib.sha256(content).hexdigest()
                    item["lfs"] = {"sha256": digest, "size": len(content), "pointerSize": 130}
                siblings.append(item)
            body = {"id": repository, "sha": commit, "siblings": siblings, "private": False, "tags": [], "downloads": 0}
            self._send(200, json.dumps(body).encode(), {"Content-Type": "application/json"})

        def _send_file(self, repository: str, revision: str, name: str) -> None:
            content = stand_in.files.get((repository, revision, name))
            if content is None:
                self._refuse("EntryNotFound")
                return
            headers = {"ETag": f'"{_git_blob(content)}"', "X-Repo-Commit": revision, "Accept-Ranges": "bytes"}
            content = stand_in.lies.get(name, content)
            start, status = 0, 200
            asked = self.headers.get("Range")
            if asked:
                start, status = int(asked.removeprefix("bytes=").split("-")[0]), 206
                headers["Content-Range"] = f"bytes {start}-{len(content) - 1}/{len(content)}"
            cut = self.command == "GET" and stand_in.breaks.get(name, 0) > 0
            if cut:
                stand_in.breaks[name] -= 1
            self._send(status, content[start:], headers, cut)

        def _send(self, status: int, body: bytes, headers: dict[str, str], cut: bool = False) -> None:
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command == "HEAD":
                return
            with contextlib.suppress(OSError):
                self.wfile.write(body[: len(body) // 2] if cut else body)
            if cut:
                self.close_connection = True
                with contextlib.suppress(OSError):
                    self.wfile.flush()
                    self.connection.shutdown(2)

        def _refuse(self, code: str) -> None:
            self._send(404, b"{}", {"X-Error-Code": code, "X-Error-Message": code})

    return Handler
