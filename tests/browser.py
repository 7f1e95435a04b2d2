"""A headless Chromium for tests, controlled through its DevTools protocol over one socket."""

import base64
import json
import shutil
import subprocess
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

from websockets.sync.client import connect

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--remote-debugging-port=0",
)


def executable():
    """Path of an installed browser, or None."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class Tab:
    """One page: its requests, its errors and warnings, and simulated input."""

    def __init__(self, socket):
        self._socket = socket
        self._number = 0
        self.requests, self.errors = [], []
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")

    def send(self, method, **parameters):
        """Call a method of the protocol and return its result."""
        self._number += 1
        self._socket.send(json.dumps({"id": self._number, "method": method, "params": parameters}))
        while True:
            message = json.loads(self._socket.recv(timeout=60))
            if message.get("id") == self._number:
                assert "error" not in message, message["error"]
                return message["result"]
            self._note(message)

    def _note(self, message):
        parameters = message["params"]
        match message["method"]:
            case "Network.requestWillBeSent":
                self.requests.append(parameters["request"]["url"])
            case "Runtime.exceptionThrown":
                self.errors.append(str(parameters["exceptionDetails"]))
            case "Runtime.consoleAPICalled" if parameters["type"] in ("error", "warning", "assert"):
                self.errors.append(str(parameters["args"]))
            case "Log.entryAdded" if parameters["entry"]["level"] in ("error", "warning"):
                self.errors.append(parameters["entry"]["text"])

    def dark(self, on=True):
        """Emulate a preference for dark pages, or light ones."""
        preference = {"name": "prefers-color-scheme", "value": "dark" if on else "light"}
        self.send("Emulation.setEmulatedMedia", features=[preference])

    def open(self, path, width=1280, height=900, *, phone=False, dark=False):
        """Load a file in a window of this size and wait until all charts are drawn."""
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=phone)
        self.send("Emulation.setTouchEmulationEnabled", enabled=phone)
        self.dark(dark)
        self.send("Page.navigate", url=Path(path).resolve().as_uri())
        self.until("document.body && document.body.dataset.ready === 'true'")

    def run(self, script):
        """The value of an expression in the page."""
        answer = self.send("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def until(self, condition, seconds=60):
        """Wait until an expression holds."""
        end = time.monotonic() + seconds
        while not self.run(f"Boolean({condition})"):
            assert time.monotonic() < end, f"timed out waiting for {condition}"
            time.sleep(0.05)

    def centre(self, selector):
        """Scroll an element into view and return the coordinates of its centre."""
        return self.run(
            f"(() => {{const element = document.querySelector({selector!r});"
            "element.scrollIntoView({block: 'center'});"
            "const box = element.getBoundingClientRect(); return [box.x + box.width / 2, box.y + box.height / 2]})()"
        )

    def point(self, selector):
        """Move the mouse over an element."""
        x, y = self.centre(selector)
        self.send("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def leave(self):
        """Move the mouse into the corner."""
        self.send("Input.dispatchMouseEvent", type="mouseMoved", x=1, y=1)

    def tap(self, selector):
        """Tap an element on a touch screen."""
        x, y = self.centre(selector)
        self.send("Input.dispatchTouchEvent", type="touchStart", touchPoints=[{"x": x, "y": y}])
        self.send("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])

    def press(self, selector, key, code):
        """Focus an element and press a key."""
        self.run(f"document.querySelector({selector!r}).focus()")
        for kind in ("keyDown", "keyUp"):
            self.send("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code)

    def picture(self, path, *, whole=False):
        """Save a PNG of the window, or of the whole page."""
        answer = self.send("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        if whole:
            size = self.send("Page.getLayoutMetrics")["cssContentSize"]
            clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
            answer = self.send("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)
        Path(path).write_bytes(base64.b64decode(answer["data"]))


@contextmanager
def chromium():
    """A fresh browser with an empty profile and one tab; ended with the block."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        command = [executable(), *FLAGS, f"--user-data-dir={profile}", "about:blank"]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            with connect(_address(Path(profile), process), max_size=None) as socket:
                yield Tab(socket)
        finally:
            process.terminate()
            process.wait(timeout=30)


def _address(profile, process):
    """The websocket address of the browser's first tab, once it is open."""
    import urllib.request

    port_file = profile / "DevToolsActivePort"
    end = time.monotonic() + 60
    while not (port_file.exists() and port_file.read_text().count("\n")):
        assert process.poll() is None, "the browser ended at once"
        assert time.monotonic() < end, "the browser opened no port"
        time.sleep(0.05)
    port = port_file.read_text().splitlines()[0]
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/json/list") as answer:
        tabs = json.load(answer)
    return next(tab["webSocketDebuggerUrl"] for tab in tabs if tab["type"] == "page")
