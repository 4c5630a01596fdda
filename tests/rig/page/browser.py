"""Headless Chromium, driven by its chromedriver (W3C WebDriver, and what Chromium adds). Standard library only."""

import base64
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import urllib.error
import urllib.request

from session import SessionError
from until import until

# Alone: it asks nobody for anything that its page does not.
ARGUMENTS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
             "--disable-component-update", "--disable-sync", "--disable-extensions", "--hide-scrollbars", "--disable-dev-shm-usage",
             "--force-color-profile=srgb", "--no-default-browser-check", "--disable-features=OptimizationHints,MediaRouter,Translate"]
ANSWER_SECONDS = 120
ELEMENT = "element-6066-11e4-a52e-4f735466cecf"  # W3C WebDriver, 12.1
TAB, ENTER = "\ue004", "\ue007"


def missing():
    """What is not installed, or nothing."""
    return [name for name in ("chromium", "chromedriver") if not shutil.which(name)]


class Browser:
    """One window."""

    def __init__(self, width=1280, height=900, dark=False, javascript=True):
        self.folder = tempfile.mkdtemp(prefix="weir-browser-")
        self.driver = subprocess.Popen(["chromedriver", "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                       cwd=self.folder, start_new_session=True, env=dict(os.environ, HOME=self.folder))
        self.session = None
        try:
            self.base = f"http://127.0.0.1:{self._port()}"
            options = {"args": [*ARGUMENTS, f"--user-data-dir={self.folder}/data", f"--window-size={width},{height}"],
                       "binary": shutil.which("chromium")}
            wanted = {"browserName": "chrome", "goog:chromeOptions": options,
                      "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"}}
            self.session = self._call("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})["sessionId"]
            self.size(width, height)
            self.media(dark)
            if not javascript:
                self.devtools("Emulation.setScriptExecutionDisabled", value=True)
        except BaseException:
            self.close()
            raise

    def _port(self):
        for line in self.driver.stdout:
            if found := re.search(r"successfully on port (\d+)", line):
                return int(found[1])
        raise SessionError("chromedriver does not start")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        if self.session is not None:
            try:
                self._call("DELETE", f"/session/{self.session}")
            except SessionError:
                pass
            self.session = None
        if self.driver.poll() is None:
            os.killpg(self.driver.pid, signal.SIGTERM)  # its own group, with the browser
            try:
                self.driver.wait(10)
            except subprocess.TimeoutExpired:
                os.killpg(self.driver.pid, signal.SIGKILL)
                self.driver.wait()
        self.driver.stdout.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _call(self, method, path, body=None):
        request = urllib.request.Request(self.base + path, method=method, data=None if body is None else json.dumps(body).encode(),
                                         headers={"Content-Type": "application/json"})
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(request, timeout=ANSWER_SECONDS) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            told = error.read().decode(errors="replace")
            raise SessionError(f"chromedriver: {method} {path}: {told[:600]}") from None
        except OSError as error:
            raise SessionError(f"chromedriver: {method} {path}: {error}") from None

    def call(self, method, path, body=None):
        return self._call(method, f"/session/{self.session}{path}", body)

    def devtools(self, command, **parameters):
        return self.call("POST", "/goog/cdp/execute", {"cmd": command, "params": parameters})

    def size(self, width, height, mobile=False):
        self.devtools("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=mobile)

    def media(self, dark=False, reduced_motion=False, kind=""):
        self.devtools("Emulation.setEmulatedMedia", media=kind,
                      features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"},
                                {"name": "prefers-reduced-motion", "value": "reduce" if reduced_motion else "no-preference"}])

    def open(self, url):
        self.call("POST", "/url", {"url": url})

    def url(self):
        return self.call("GET", "/url")

    def run(self, script, *arguments):
        return self.call("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    def run_async(self, script, *arguments):
        """The script calls its last argument with the value."""
        return self.call("POST", "/execute/async", {"script": script, "args": list(arguments)})

    def source(self):
        """The document as it is shown, also where scripts are off."""
        return self.call("GET", "/source")

    def press(self, keys):
        actions = [{"type": kind, "value": key} for key in keys for kind in ("keyDown", "keyUp")]
        self.call("POST", "/actions", {"actions": [{"type": "key", "id": "keyboard", "actions": actions}]})

    def wait(self, what, script, seconds=ANSWER_SECONDS):
        return until(what, lambda: self.run(script), seconds, SessionError, turn=0.1)

    def picture(self, path, whole=True):
        """PNG of the page, or of the window."""
        with open(path, "wb") as file:
            file.write(base64.b64decode(self.devtools("Page.captureScreenshot", format="png", captureBeyondViewport=whole)["data"]
                                        if not whole else self._whole()))

    def _whole(self):
        box = self.devtools("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": box["width"], "height": box["height"], "scale": 1}
        return self.devtools("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)["data"]

    def console(self):
        """What the page and the browser complained of since the last call: texts."""
        return [entry["message"] for entry in self.call("POST", "/se/log", {"type": "browser"}) if entry["level"] in ("SEVERE", "WARNING")]

    def requests(self):
        """Addresses that were asked since the last call."""
        asked = []
        for entry in self.call("POST", "/se/log", {"type": "performance"}):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                asked.append(message["params"]["request"]["url"])
        return asked

    def first_paint_ms(self):
        """First contentful paint, from the beginning of the navigation."""
        return self.wait("the first paint", "const p = performance.getEntriesByName('first-contentful-paint')[0];"
                         "return p ? p.startTime : null;")
