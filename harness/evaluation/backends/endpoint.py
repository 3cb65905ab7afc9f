"""Generation by an OpenAI-compatible server (vLLM, SGLang, ...): many requests at once, each tried again when it fails.

A request fails for a while on 408, 409, 425, 429 and 5xx, on a connection that is refused, cut or silent, and on an
answer that is empty, no UTF-8 or no chat completion; it is tried again after a growing pause (the server's Retry-After
if it gives one). Any other status ends the evaluation: the server will not accept the next request either. When many
requests in a row have used up their tries the server is taken for down; what arrived is stored.
"""

from __future__ import annotations

import http.client
import json
import queue
import random
import ssl
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from harness.errors import UserError
from harness.evaluation.sampling import Generation, Request, Sampling

EXTRA: dict[str, Any] = {"top_k": -1, "repetition_penalty": 1.0, "skip_special_tokens": False}
"""Sent with each request: vLLM and SGLang otherwise take penalties and top-k from the model's folder."""
_AGAIN = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})
_TOO_LONG = ("context length", "context_length", "maximum context", "too long", "longer than the model")
_LARGEST_ANSWER = 64 << 20


class Refused(Exception):
    """The server will not serve such a request; trying again is no use."""


class Overflow(Exception):
    """The prompt does not fit into the context of the model."""


class Failed(Exception):
    """A try failed; ``wait`` is what the server asked for, in seconds, or None."""

    def __init__(self, reason: str, wait: float | None = None) -> None:
        super().__init__(reason)
        self.wait = wait


@dataclass(frozen=True)
class Patience:
    """``tries`` of a request, pauses of ``first`` seconds doubling up to ``longest``; a ``timeout`` for silence."""

    tries: int = 6
    first: float = 0.5
    longest: float = 30.0
    timeout: float = 3600.0


class EndpointBackend:
    """``url``: the server, with or without ``/v1``. ``key``: bearer token, never stored."""

    block: int | None = None

    def __init__(
        self,
        url: str,
        model: str | None,
        *,
        concurrency: int,
        extra: Mapping[str, Any] | None = None,
        key: str | None = None,
        patience: Patience | None = None,
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise UserError(f"endpoint={url} is no http(s) address; e.g. endpoint=http://127.0.0.1:8000/v1")
        if concurrency < 1:
            raise UserError(f"concurrency={concurrency} must be at least 1")
        self._secure, self._host, self._port = parts.scheme == "https", parts.hostname, parts.port
        path = parts.path.rstrip("/")
        self._path = path if path.endswith("/v1") else path + "/v1"
        self._headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {key}"} if key else {})
        self.url, self.concurrency = url, concurrency
        self.extra = EXTRA if extra is None else dict(extra)
        self.patience = patience or Patience()
        self.model = model or self._served_model()

    def describe(self) -> dict[str, Any]:
        return {
            "engine": "endpoint",
            "version": self._server,
            "url": self.url,
            "extra": self.extra,
            "template_sha256": "the server's",
        }

    _server = "unknown"

    def generate(self, requests: Sequence[Request], sampling: Sampling, emit: Callable[[Generation], None]) -> None:
        """Workers send, this thread stores: at most ``concurrency`` requests are under way."""
        todo: queue.SimpleQueue[Request] = queue.SimpleQueue()
        for request in requests:
            todo.put(request)
        done: queue.SimpleQueue[Generation | BaseException | None] = queue.SimpleQueue()
        stop = threading.Event()
        workers = [
            threading.Thread(target=self._work, args=(todo, done, stop, sampling), daemon=True)
            for _ in range(min(self.concurrency, len(requests)))
        ]
        for worker in workers:
            worker.start()
        running, in_a_row, failed, reason = len(workers), 0, 0, ""
        try:
            while running:
                item = done.get()
                if item is None:
                    running -= 1
                elif isinstance(item, Generation):
                    in_a_row = 0
                    emit(item)
                elif isinstance(item, Failed):
                    in_a_row, failed, reason = in_a_row + 1, failed + 1, str(item)
                    if in_a_row > 2 * self.concurrency:
                        break
                elif isinstance(item, Refused):
                    raise UserError(f"endpoint={self.url} {item}")
                else:
                    raise item
        finally:
            stop.set()
        if failed:
            raise UserError(
                f"endpoint={self.url}: {failed} requests failed after {self.patience.tries} tries each, the last with: "
                f"{reason}; all answers are stored: give the same command again when the server is well"
            )

    def _work(
        self,
        todo: queue.SimpleQueue[Request],
        done: queue.SimpleQueue[Generation | BaseException | None],
        stop: threading.Event,
        sampling: Sampling,
    ) -> None:
        connection = self._connect()
        jitter = random.Random(threading.get_ident())
        try:
            while not stop.is_set():
                try:
                    request = todo.get_nowait()
                except queue.Empty:
                    return
                done.put(self._patiently(connection, request, sampling, stop, jitter))
        except BaseException as error:
            done.put(error)
        finally:
            connection.close()
            done.put(None)

    def _patiently(
        self,
        connection: http.client.HTTPConnection,
        request: Request,
        sampling: Sampling,
        stop: threading.Event,
        jitter: random.Random,
    ) -> Generation | Exception:
        body = json.dumps(self._body(request, sampling)).encode()
        failure: Exception = Failed("stopped")
        for attempt in range(self.patience.tries):
            try:
                answer = self._exchange(connection, "POST", "/chat/completions", body)
                return _generation(request, answer)
            except Overflow:
                return Generation(request.key, "", 0, None, "overflow")
            except Refused as error:
                return error
            except Failed as error:
                failure = error
                connection.close()
                pause = min(self.patience.first * 2**attempt, self.patience.longest) * (0.5 + jitter.random() / 2)
                if attempt + 1 < self.patience.tries and stop.wait(min(error.wait or pause, self.patience.longest)):
                    break
        return failure

    def _body(self, request: Request, sampling: Sampling) -> dict[str, Any]:
        return {
            "model": self.model,
            "messages": list(request.messages),
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "max_tokens": sampling.max_new_tokens,
            "seed": request.seed,
            **self.extra,
        }

    def _connect(self) -> http.client.HTTPConnection:
        if self._secure:
            return http.client.HTTPSConnection(
                self._host, self._port, timeout=self.patience.timeout, context=ssl.create_default_context()
            )
        return http.client.HTTPConnection(self._host, self._port, timeout=self.patience.timeout)

    def _exchange(self, connection: http.client.HTTPConnection, method: str, path: str, body: bytes | None) -> Any:
        """One request on a kept connection -> the parsed answer. Raises Failed, Refused or Overflow."""
        try:
            connection.request(method, self._path + path, body, self._headers)
            response = connection.getresponse()
            content = response.read(_LARGEST_ANSWER)
        except (OSError, http.client.HTTPException) as error:
            raise Failed(f"{type(error).__name__}: {error}") from error
        self._server = response.getheader("Server") or self._server
        if response.status in _AGAIN:
            raise Failed(f"status {response.status}", _seconds(response.getheader("Retry-After")))
        if response.status != 200:
            text = content[:2000].decode(errors="replace")
            if response.status in (400, 413, 422) and any(words in text.lower() for words in _TOO_LONG):
                raise Overflow(text)
            hint = "; if it does not know a field, give extra={}" if response.status in (400, 422) else ""
            raise Refused(f"answers status {response.status}: {' '.join(text.split())[:200]}{hint}")
        try:
            return json.loads(content.decode("utf-8"))
        except ValueError as error:
            raise Failed(f"an answer of {len(content)} bytes that is no UTF-8 JSON") from error

    def _served_model(self) -> str:
        connection = self._connect()
        try:
            answer = self._exchange(connection, "GET", "/models", None)
            return str(answer["data"][0]["id"])
        except (Failed, Refused, LookupError, TypeError) as error:
            raise UserError(
                f"endpoint={self.url} does not say which model it serves ({error}); see that it runs, or give "
                "model_name="
            ) from error
        finally:
            connection.close()


def _seconds(text: str | None) -> float | None:
    try:
        return None if text is None else max(0.0, float(text))
    except ValueError:
        return None


def _generation(request: Request, answer: Any) -> Generation:
    try:
        choice = answer["choices"][0]
        text, finish, usage = choice["message"]["content"], choice["finish_reason"], answer["usage"]
        tokens, prompt_tokens = int(usage["completion_tokens"]), int(usage["prompt_tokens"])
    except (LookupError, TypeError, ValueError) as error:
        raise Failed(f"an answer that is no chat completion with usage ({type(error).__name__})") from error
    if text is None:
        text = ""
    if not isinstance(text, str) or finish is None:
        raise Failed("an unfinished answer")
    if not text and tokens == 0:
        raise Failed("an empty answer")
    return Generation(request.key, text, tokens, prompt_tokens, "length" if finish == "length" else "stop")
