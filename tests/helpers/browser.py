"""A real Chromium for tests, driven through chromedriver by the W3C WebDriver protocol."""

import base64
import contextlib
import json
import pathlib
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator

FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
         "--disable-background-networking", "--disable-component-update",
         "--force-color-profile=srgb")  # fmt: skip
_ELEMENT = (
  "element-6066-11e4-a52e-4f735466cecf"  # the protocol's name for a reference to an element
)


def chromium() -> str | None:
  """The path of Chromium; None if there is none."""
  names = ("chromium", "chromium-browser", "google-chrome")
  return next(filter(None, map(shutil.which, names)), None)


def can_be_driven() -> bool:
  """Whether this machine has Chromium and chromedriver."""
  return chromium() is not None and shutil.which("chromedriver") is not None


class Browser:
  """One window of Chromium."""

  def __init__(self, driver: str, session: str):
    self._address = f"{driver}/session/{session}"

  def call(self, method: str, path: str, **values):
    """One WebDriver command; returns its value."""
    return _call(method, f"{self._address}/{path}", values if method == "POST" else None)

  def open(self, address: str) -> None:
    """Loads a page."""
    self.call("POST", "url", url=address)

  def script(self, code: str, *arguments):
    """Runs a function body in the page, beside the page's security policy; returns its result."""
    return self.call("POST", "execute/sync", script=code, args=list(arguments))

  def move_to(self, x: float, y: float) -> None:
    """Moves the pointer, in pixels of the visible part of the page."""
    move = {
      "type": "pointerMove",
      "duration": 0,
      "x": round(x),
      "y": round(y),
      "origin": "viewport",
    }
    mouse = {"type": "pointer", "id": "mouse", "parameters": {"pointerType": "mouse"}}
    self.call("POST", "actions", actions=[{**mouse, "actions": [move]}])

  def _find(self, selector: str) -> str:
    found = self.call("POST", "element", using="css selector", value=selector)
    return found[_ELEMENT]

  def click(self, selector: str) -> None:
    """Clicks the first element that matches."""
    self.call("POST", f"element/{self._find(selector)}/click")

  def type(self, selector: str, text: str) -> None:
    """Replaces the text of an input."""
    element = self._find(selector)
    self.call("POST", f"element/{element}/clear")
    self.call("POST", f"element/{element}/value", text=text)

  def type_keys(self, keys: str) -> None:
    """Presses keys, in whichever element has the focus."""
    actions = [{"type": kind, "value": key} for key in keys for kind in ("keyDown", "keyUp")]
    self.call("POST", "actions", actions=[{"type": "key", "id": "keys", "actions": actions}])

  def choose(self, selector: str, value: str) -> None:
    """Chooses an option of a select element."""
    self.click(f'{selector} option[value="{value}"]')

  def resize(self, width: int, height: int) -> None:
    """Sets the size of the window."""
    self.call("POST", "window/rect", width=width, height=height)

  def emulate(self, command: str, **values):
    """A command of Chromium's own protocol, such as one that emulates a media feature."""
    return self.call("POST", "goog/cdp/execute", cmd=command, params=values)

  def screenshot(self, path: pathlib.Path) -> None:
    """Writes what is visible as PNG."""
    path.write_bytes(base64.b64decode(self.call("GET", "screenshot")))

  def full_screenshot(self, path: pathlib.Path) -> None:
    """Writes the whole page as PNG."""
    made = self.emulate("Page.captureScreenshot", captureBeyondViewport=True)
    path.write_bytes(base64.b64decode(made["data"]))

  def pdf(self, path: pathlib.Path) -> None:
    """Prints the page."""
    path.write_bytes(base64.b64decode(self.call("POST", "print", background=True)))

  def log(self, kind: str = "browser") -> list[dict]:
    """The new entries of a log: `browser` is the console, `performance` has every request."""
    return self.call("POST", "se/log", type=kind)

  def requests(self) -> list[str]:
    """The addresses that were asked for since the last call."""
    messages = [json.loads(entry["message"])["message"] for entry in self.log("performance")]
    sent = [m for m in messages if m["method"] == "Network.requestWillBeSent"]
    return [message["params"]["request"]["url"] for message in sent]


@contextlib.contextmanager
def browser(profile: pathlib.Path) -> Iterator[Browser]:
  """Starts chromedriver and Chromium with a fresh profile, and ends both."""
  with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    port = free.getsockname()[1]
  driver = subprocess.Popen(
    ["chromedriver", f"--port={port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
  )
  address = f"http://127.0.0.1:{port}"
  try:
    _wait_until_ready(address)
    options = {"binary": chromium(), "args": [*FLAGS, f"--user-data-dir={profile}"],
               "perfLoggingPrefs": {"enableNetwork": True}}  # fmt: skip
    wanted = {"browserName": "chrome", "goog:chromeOptions": options,
              "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"}}  # fmt: skip
    session = _call("POST", f"{address}/session", {"capabilities": {"alwaysMatch": wanted}})
    window = Browser(address, session["sessionId"])
    window.open("about:blank")  # not the page of a new tab, which makes requests of its own
    window.requests()
    try:
      yield window
    finally:
      window.call("DELETE", "")
  finally:
    driver.terminate()
    driver.wait(timeout=20)


def _wait_until_ready(address: str) -> None:
  deadline = time.monotonic() + 30
  while True:
    try:
      if _call("GET", f"{address}/status", None)["ready"]:
        return
    except OSError:
      pass
    assert time.monotonic() < deadline, "chromedriver did not start"
    time.sleep(0.1)


def _call(method: str, address: str, values):
  data = None if values is None else json.dumps(values).encode()
  request = urllib.request.Request(address.rstrip("/"), data, method=method)
  try:
    with urllib.request.urlopen(request, timeout=120) as answer:
      return json.load(answer)["value"]
  except urllib.error.HTTPError as error:
    raise AssertionError(json.load(error)["value"]["message"]) from None
