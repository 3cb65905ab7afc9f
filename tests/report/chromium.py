"""Headless Chromium driven through its debugging pipe: real sizes, colour schemes, mouse, keys, pictures and prints."""

from __future__ import annotations

import base64
import json
import os
import selectors
import shutil
import signal
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Any

EXECUTABLE = shutil.which("chromium") or shutil.which("chromium-browser")
QUIET = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
)
KEYS = {"Tab": 9, "Enter": 13, "Escape": 27, " ": 32}


class Chromium:
    """One page of a browser. ``profile``: an empty folder. Every wait ends after ``seconds``."""

    def __init__(self, profile: Path, seconds: float = 120.0) -> None:
        self.seconds = seconds
        from_us, to_us = os.pipe(), os.pipe()
        read, write = from_us[0], to_us[1]

        def connect() -> None:  # the browser reads descriptor 3 and writes descriptor 4
            first, second = os.dup(read), os.dup(write)
            os.dup2(first, 3)
            os.dup2(second, 4)

        command = [str(EXECUTABLE), *QUIET, f"--user-data-dir={profile}", "--remote-debugging-pipe", "about:blank"]
        self._process = subprocess.Popen(
            command,
            preexec_fn=connect,
            close_fds=False,
            start_new_session=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(read)
        os.close(write)
        self._to, self._from = from_us[1], to_us[0]
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._from, selectors.EVENT_READ)
        self._buffer, self._number, self._session = b"", 0, None
        self.events: list[dict[str, Any]] = []
        targets = self.call("Target.getTargets")["targetInfos"]
        page = next(item for item in targets if item["type"] == "page")
        found = self.call("Target.attachToTarget", targetId=page["targetId"], flatten=True)
        self._session = found["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def __enter__(self) -> Chromium:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._selector.close()
        os.close(self._to)
        os.close(self._from)

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self._to, data) :]
        return self._until(lambda answer: answer.get("id") == self._number)["result"]

    def open(self, path: Path, *, width: int = 1280, height: int = 900, dark: bool = False) -> None:
        """Loads the page and waits for its load event."""
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.events.clear()
        self.call("Page.navigate", url=path.resolve().as_uri())
        if not any(event["method"] == "Page.loadEventFired" for event in self.events):
            self._until(lambda answer: answer.get("method") == "Page.loadEventFired")

    def value(self, expression: str) -> Any:
        """The value of an expression of JavaScript; promises are waited for."""
        found = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in found:
            raise AssertionError(found["exceptionDetails"])
        return found["result"].get("value")

    def centre(self, selector: str) -> tuple[float, float]:
        """Scrolls an element into view; where its middle is in the window."""
        box = self.value(
            f"(() => {{ const found = document.querySelector({json.dumps(selector)});"
            " found.scrollIntoView({block: 'center'}); const box = found.getBoundingClientRect();"
            " return [box.x + box.width / 2, box.y + box.height / 2]; })()"
        )
        return float(box[0]), float(box[1])

    def hover(self, selector: str) -> None:
        x, y = self.centre(selector)
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def click(self, selector: str) -> None:
        x, y = self.centre(selector)
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def press(self, key: str) -> None:
        code = {"key": key, "code": "Space" if key == " " else key, "windowsVirtualKeyCode": KEYS[key]}
        text = {"text": "\r" if key == "Enter" else key} if key in ("Enter", " ") else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", **code, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", **code)

    def screenshot(self, path: Path, *, whole: bool = True) -> None:
        clip = {}
        if whole:
            size = self.call("Page.getLayoutMetrics")["cssContentSize"]
            clip = {"clip": {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}}
        found = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole, **clip)
        path.write_bytes(base64.b64decode(found["data"]))

    def pdf(self, path: Path) -> None:
        found = self.call("Page.printToPDF", printBackground=False, preferCSSPageSize=True)
        path.write_bytes(base64.b64decode(found["data"]))

    def _until(self, wanted: Any) -> dict[str, Any]:
        end = time.monotonic() + self.seconds
        while True:
            while b"\0" in self._buffer:
                text, self._buffer = self._buffer.split(b"\0", 1)
                answer = json.loads(text)
                if "method" in answer:
                    self.events.append(answer)
                if wanted(answer):
                    if "error" in answer:
                        raise AssertionError(answer["error"])
                    return dict(answer)
            if not self._selector.select(max(0.0, end - time.monotonic())):
                raise TimeoutError("the browser does not answer")
            data = os.read(self._from, 1 << 16)
            if not data:
                raise ConnectionError("the browser has ended")
            self._buffer += data
