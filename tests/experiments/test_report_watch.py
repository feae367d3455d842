"""`report.py --watch` as a real process: what it serves, to whom, when it changes, and how it ends."""

import http.client
import re
import signal
import socket
import subprocess
import sys
import time

import pytest

from tests import ROOT
from tests.helpers import browser as browsers
from tests.helpers.report_runs import write_run


class Watch:
  """A running `report.py --watch`."""

  def __init__(self, *arguments):
    self.process = subprocess.Popen(
      [sys.executable, "experiments/report.py", *map(str, arguments), "--watch"],
      cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    self.said = self.process.stdout.readline()
    self.port = int(re.search(r"http://127\.0\.0\.1:(\d+)/", self.said)[1])

  def get(self, path="/", host=None):
    """The status and text of an answer."""
    connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
    connection.request("GET", path, headers={"Host": host} if host else {})
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, text

  def end(self, with_signal=signal.SIGINT):
    """Sends a signal; returns the exit code and stderr."""
    self.process.send_signal(with_signal)
    _, errors = self.process.communicate(timeout=30)
    return self.process.returncode, errors


@pytest.fixture
def watch(tmp_path):
  started = []

  def start(*arguments):
    started.append(Watch(*(arguments or [tmp_path])))
    return started[-1]

  yield start
  for each in started:
    if each.process.poll() is None:
      each.process.kill()
      each.process.communicate(timeout=30)


def append_round(folder, row):
  with (folder / "metrics.csv").open("a") as file:
    file.write(row + "\n")


def test_the_page_follows_the_runs_and_ctrl_c_ends_it_quietly(tmp_path, watch):
  live = watch()
  status, text = live.get()
  assert status == 200
  assert "No run has been evaluated yet." in text
  folder = write_run(tmp_path, "fedavg", [0.1, 0.2], total_rounds=3, finished=False, name="one")
  first = live.get("/version")[1]
  status, text = live.get()
  assert (status, f"data-live={first}" in text) == (200, True)
  assert "round 2 of 3" in text
  assert "connect-src 'self'" in text
  append_round(folder, "3,0.3,0.3,0.3,2000,2000,12000,2,0.5,1.5,7.0")
  (folder / "summary.json").write_text('{"rounds": 3, "diverged": false}')
  assert live.get("/version")[1] != first
  text = live.get()[1]
  assert "1 finished run · 1 method" in text
  assert "<th scope=row>FedAvg</th>" in text
  assert live.end() == (0, "")


def test_it_listens_on_the_loopback_interface_and_answers_to_its_name_only(tmp_path, watch):
  write_run(tmp_path, "fedavg", [0.5])
  live = watch()
  own = next(
    (a[4][0] for a in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)
     if not a[4][0].startswith("127.")), None,
  )  # fmt: skip
  if own:
    with pytest.raises(OSError, match="refused"):
      socket.create_connection((own, live.port), timeout=5)
  assert live.get(host="evil.example")[0] == 403
  assert live.get(host=f"localhost:{live.port}")[0] == 200
  for path in ("/../../etc/passwd", "/one/config.json", "/index.html?x"):
    assert live.get(path)[0] == 404


def test_broken_runs_do_not_stop_the_page(tmp_path, watch):
  write_run(tmp_path, "fedavg", [0.5])
  live = watch()
  broken = write_run(tmp_path, "ghbm", [0.5], name="broken")
  (broken / "metrics.csv").write_text("round\n1,2,3\n")
  starting = write_run(tmp_path, "mime", [0.5], name="starting", finished=False)
  (starting / "metrics.csv").unlink()
  status, text = live.get()
  assert status == 200
  assert f"{broken}: row 1 of metrics.csv has 3 values for 1 columns." in text


def test_a_port_in_use_is_one_sentence(tmp_path, watch):
  live = watch(tmp_path, "--port=0")
  done = subprocess.run(
    [sys.executable, "experiments/report.py", str(tmp_path), "--watch", f"--port={live.port}"],
    cwd=ROOT, capture_output=True, text=True, timeout=60,
  )  # fmt: skip
  assert done.returncode == 2
  assert re.fullmatch(r"report\.py: --port must be a free port; \d+: .*\.\n", done.stderr)


@pytest.mark.parametrize("arguments", [["nosuch"], ["nosuch", "--watch"], [".", "--output=x"]])
def test_a_folder_without_runs_is_one_sentence(tmp_path, arguments):
  done = subprocess.run(
    [sys.executable, str(ROOT / "experiments/report.py"), *arguments],
    cwd=tmp_path, capture_output=True, text=True, timeout=60,
  )  # fmt: skip
  assert done.returncode == 2
  assert re.fullmatch(r"report\.py: expected .*\.\n", done.stderr)
  assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.skipif(not browsers.can_be_driven(), reason="no Chromium with chromedriver here")
def test_an_open_page_takes_over_new_rounds_and_keeps_the_readers_choices(tmp_path, watch):
  runs = tmp_path / "runs"
  folder = write_run(runs, "fedavg", [0.1, 0.2], total_rounds=9, finished=False, name="one")
  live = watch(runs)
  with browsers.browser(tmp_path / "profile") as window:
    address = f"http://127.0.0.1:{live.port}/"
    window.open(address)
    window.choose("[name=metric]", "eval/loss")
    window.click("[name=logY]")
    assert "2/9" in window.script("return document.querySelector('.legend').innerText")
    append_round(folder, "3,0.3,0.3,0.3,2000,2000,12000,2,0.5,1.5,7.0")
    write_run(runs, "ghbm", [0.3] * 9, name="two")
    deadline = time.monotonic() + 30
    while (
      "3/9" not in (text := window.script("return document.querySelector('.legend').innerText"))
      or "GHBM" not in text
    ):
      assert time.monotonic() < deadline, text
      time.sleep(0.2)
    chosen = window.script(
      "const c = document.querySelector('.controls');"
      "return [c.querySelector('[name=metric]').value, c.querySelector('[name=logY]').checked]"
    )
    assert chosen == ["eval/loss", True]
    assert "live" in window.script("return document.getElementById('live').innerText")
    assert live.end() == (0, "")
    asked = {each for each in window.requests() if not each.startswith("data:")}
    assert asked <= {address, f"{address}version", f"{address}favicon.ico"}
    while "has ended" not in window.script("return document.getElementById('live').innerText"):
      assert time.monotonic() < deadline + 20
      time.sleep(0.2)
