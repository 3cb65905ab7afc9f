"""An OpenAI-compatible server in a thread: answers what a function says, and misbehaves as it is told."""

from __future__ import annotations

import contextlib
import json
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answer = Callable[[int, dict[str, Any]], Any]
"""(number of the request from 0, its body) -> text; (status, body bytes, headers); or ``CUT``."""
CUT = object()


def completion(text: str, finish: str = "stop") -> bytes:
    return json.dumps(
        {
            "choices": [{"message": {"role": "assistant", "content": text}, "finish_reason": finish}],
            "usage": {"completion_tokens": len(text.split()) + 1, "prompt_tokens": 7},
        }
    ).encode()


@contextlib.contextmanager
def server(answer: Answer) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """(address, bodies of all requests so far)."""
    bodies: list[dict[str, Any]] = []
    guard = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def log_message(self, *_: Any) -> None:
            pass

        def do_GET(self) -> None:
            self._send(200, json.dumps({"data": [{"id": "served"}]}).encode(), {})

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            with guard:
                number = len(bodies)
                bodies.append(body)
            reply = answer(number, body)
            if reply is CUT:
                self.wfile.write(b'HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{"choices"')
                self.wfile.flush()
                self.connection.shutdown(socket.SHUT_RDWR)
                self.close_connection = True
                return
            self._send(*reply) if isinstance(reply, tuple) else self._send(200, completion(reply), {})

        def _send(self, status: int, content: bytes, headers: dict[str, str]) -> None:
            lines = [f"HTTP/1.1 {status} X", f"Content-Length: {len(content)}"]
            lines += [f"{name}: {value}" for name, value in headers.items()]
            self.wfile.write(("\r\n".join(lines) + "\r\n\r\n").encode() + content)
            self.wfile.flush()

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 256

        def handle_error(self, *_: Any) -> None:
            pass

    running = Server(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=running.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{running.server_address[1]}", bodies
    finally:
        running.shutdown()
        running.server_close()


def kill_command_after(count: int, bodies: list[dict[str, Any]], words: list[str]) -> None:
    """``python -m harness WORDS``, killed with kill -9 as soon as the server has got ``count`` requests."""
    command = [sys.executable, "-m", "harness", *words]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 240
    while len(bodies) < count and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
