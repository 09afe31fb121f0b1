"""Chromium in tests: driven by its DevTools protocol over a pair of pipes, with nothing but Python's own library."""

import base64, json, os, shutil, subprocess, sys, time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
SIZES = {"laptop": (1280, 800, False), "phone": (390, 844, True)}


def programs():
    """Chromium, and the built program: BACKSIGHT names it, else it is target/release/backsight or target/debug/backsight."""
    chromium = shutil.which("chromium")
    backsight = os.environ.get("BACKSIGHT") or next(
        (str(path) for path in (ROOT / "target/release/backsight", ROOT / "target/debug/backsight") if path.exists()), None)
    if not chromium or not backsight:
        sys.exit("chromium or backsight is missing: .ci/install, cargo build --release")
    return chromium, backsight


def check(is_so, what):
    if not is_so:
        sys.exit(f"wrong: {what}")
    print(f"  {what}", flush=True)


class Browser:
    """Chromium, driven by its DevTools protocol over a pair of pipes."""

    def __init__(self, program, folder):
        to_read, self.to_write = os.pipe()
        self.from_read, from_write = os.pipe()
        command = [program, "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--remote-debugging-pipe",
                   f"--user-data-dir={folder}", "about:blank"]
        # The browser reads from descriptor 3 and writes to 4.
        shell = 'r=$1 w=$2; shift 2; eval "exec 3<&$r 4>&$w"; exec "$@" 2>/dev/null'
        self.process = subprocess.Popen(["bash", "-c", shell, "-", str(to_read), str(from_write), *command], pass_fds=(to_read, from_write))
        os.close(to_read), os.close(from_write)
        self.number, self.buffer, self.errors = 0, b"", []
        targets = self.call("Target.getTargets", session=None)["targetInfos"]
        page = next(target for target in targets if target["type"] == "page")
        self.session = self.call("Target.attachToTarget", {"targetId": page["targetId"], "flatten": True}, session=None)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def message(self, until):
        while b"\0" not in self.buffer:
            if time.time() > until:
                sys.exit("the browser does not answer")
            part = os.read(self.from_read, 1 << 20)
            if not part:
                sys.exit("the browser ended")
            self.buffer += part
        text, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(text)

    def call(self, method, parameters=None, session="page"):
        self.number += 1
        request = {"id": self.number, "method": method, "params": parameters or {}}
        if session == "page":
            request["sessionId"] = self.session
        os.write(self.to_write, json.dumps(request).encode() + b"\0")
        until = time.time() + 240
        while True:
            answer = self.message(until)
            if answer.get("method") == "Runtime.exceptionThrown":
                self.errors.append(answer["params"]["exceptionDetails"].get("exception", {}).get("description", "?"))
            if answer.get("method") == "Page.loadEventFired":
                self.loaded = True
            if answer.get("id") == self.number:
                if "error" in answer:
                    sys.exit(f"{method}: {answer['error']}")
                return answer["result"]

    def value(self, script):
        result = self.call("Runtime.evaluate", {"expression": script, "returnByValue": True})
        if "exceptionDetails" in result:
            sys.exit(f"{script}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def open(self, address, until="globalThis.backsight"):
        """Seconds until the page can be used."""
        began = time.time()
        self.call("Page.navigate", {"url": address})
        self.wait(f"document.readyState === 'complete' && !!({until})")
        return time.time() - began

    def wait(self, script, seconds=60):
        """Until something holds."""
        until = time.time() + seconds
        while not self.value(script):
            if time.time() > until:
                sys.exit(f"it did not come to that: {script}; errors: {self.errors}")
            time.sleep(0.02)

    def after(self, script):
        """What a promise gives."""
        result = self.call("Runtime.evaluate", {"expression": script, "returnByValue": True, "awaitPromise": True})
        if "exceptionDetails" in result:
            sys.exit(f"{script}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def size(self, name, dark):
        width, height, mobile = SIZES[name]
        self.call("Emulation.setDeviceMetricsOverride", {"width": width, "height": height, "deviceScaleFactor": 2 if mobile else 1, "mobile": mobile})
        self.call("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]})

    def mouse(self, kind, x, y, **more):
        self.call("Input.dispatchMouseEvent", {"type": kind, "x": x, "y": y, **more})

    def click(self, x, y, count=1):
        for number in range(1, count + 1):
            for kind in ("mousePressed", "mouseReleased"):
                self.mouse(kind, x, y, button="left", clickCount=number)

    def drag(self, x, y, to_x, to_y, modifiers=0):
        self.mouse("mousePressed", x, y, button="left", clickCount=1, modifiers=modifiers)
        for part in range(1, 6):
            self.mouse("mouseMoved", x + (to_x - x) * part / 5, y + (to_y - y) * part / 5, button="left", buttons=1, modifiers=modifiers)
        self.mouse("mouseReleased", to_x, to_y, button="left", clickCount=1, modifiers=modifiers)

    def key(self, key):
        for kind in ("keyDown", "keyUp"):
            text = {"text": key} if kind == "keyDown" and len(key) == 1 else {}
            self.call("Input.dispatchKeyEvent", {"type": kind, "key": key, **text})

    def click_on(self, element):
        spot = self.value(f"(e => {{ e.scrollIntoView({{block: 'center'}}); const r = e.getBoundingClientRect(); return [r.left + r.width / 2, r.top + r.height / 2]; }})({element})")
        self.click(*spot)

    def type(self, text):
        self.call("Input.insertText", {"text": text})

    def picture(self, file):
        file.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", {"format": "png"})["data"]))

    def close(self):
        try:
            self.call("Browser.close", session=None)
        except SystemExit:
            pass
        self.process.wait(timeout=30)
