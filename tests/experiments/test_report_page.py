"""The report's files: what every figure and table must say, escaping, and the data of the charts."""

import base64
import csv
import hashlib
import json
import math
import re
import subprocess
import sys
from html.parser import HTMLParser

import pytest

from experiments import report
from experiments.reports import chart_data, differences
from tests import ROOT
from tests.helpers.report_runs import compared, write_run


def test_synthetic_data_is_named_in_every_table_and_on_every_plot(tmp_path):
  for rate in (0.1, 0.2):
    for algo in ("fedavg", "ghbm"):
      write_run(tmp_path / "runs", algo, [rate, rate], data="synthetic", scale=0.05,
                hyperparameters={"client_learning_rate": rate},
                columns={"drift/mean": [1.0, 2.0]})  # fmt: skip
  assert report.main([str(tmp_path / "runs"), f"--output={tmp_path / 'out'}"]) == 0
  figures = list((tmp_path / "out" / "figures").glob("*.svg"))
  assert len(figures) == 9
  written = [*figures, *(tmp_path / "out" / "tables").iterdir()]
  assert len(written) == 9 + 3 * 7  # the five tables, differences and runs
  for path in written:
    assert "synthetic data, scaled down to 0.05" in path.read_text().replace(";", ","), path.name


def test_drift_cosine_and_virtual_time_are_drawn_where_they_were_measured(tmp_path):
  extra = {"drift/mean": [0.1, 0.2], "cosine/pairwise": [0.1, 0.2], "virtual/seconds": [5.0, 9.0]}
  write_run(tmp_path / "runs", "fedavg", [0.1, 0.5], columns=extra)
  report.main([str(tmp_path / "runs"), f"--output={tmp_path / 'out'}"])
  names = {path.stem for path in (tmp_path / "out" / "figures").glob("*.png")}
  assert names >= {"digits_accuracy_virtual", "digits_drift_mean", "digits_cosine_pairwise",
                   "digits_accuracy_rounds",
                   "digits_accuracy_bytes", "digits_accuracy_seconds", "digits_communication"}  # fmt: skip


def test_asynchronous_runs_show_staleness_and_idle_time_beside_synchronous_ones(tmp_path):
  time = {"virtual/seconds": [5.0, 9.0], "virtual/idle_seconds": [5.0, 4.0]}
  ages = {"staleness/mean": [1.0, 2.0], "staleness/max": [3.0, 3.0], "staleness/0": [2.0, 0.0],
          "staleness/1": [0.0, 1.0], "staleness/2-3": [0.0, 1.0], "clients/stale": [0.0, 1.0]}  # fmt: skip
  write_run(tmp_path / "runs", "autofedgm", [0.1, 0.5], columns=time | ages, **{"async": True})
  write_run(tmp_path / "runs", "fedgm", [0.1, 0.5], columns=time, client_speed="lognormal(1, 1)")
  write_run(tmp_path / "runs", "fedgm", [0.1, 0.4], columns=time, client_speed="constant(1)")
  assert report.main([str(tmp_path / "runs"), f"--output={tmp_path / 'out'}"]) == 0
  figures = tmp_path / "out" / "figures"
  names = {path.stem for path in figures.glob("*.png")}
  assert {"digits_accuracy_virtual", "digits_staleness", "digits_idle"} <= names
  assert not [name for name in names if "staleness_" in name or "clients" in name]
  page = (tmp_path / "out" / "index.html").read_text()
  assert "AutoFedGM 20.0%" in page  # one of five updates was dropped
  assert "FedGM (client_speed=lognormal(1, 1))" in page
  staleness = (figures / "digits_staleness.svg").read_text()
  assert "Updates (%)" in staleness


class _Tags(HTMLParser):
  def __init__(self):
    super().__init__()
    self.seen = []

  def handle_starttag(self, tag, attrs):
    self.seen.append((tag, dict(attrs)))


def test_texts_from_disk_are_escaped_everywhere(tmp_path):
  evil = "<script>alert(1)</script>\"'& $x_1$ \\input{x} ${_}^~#% | `a` [b] α é ∑\t\n"
  write_run(tmp_path / "runs", evil, [0.5, 0.6], name="<b>name", task=evil, details={"alpha": evil},
            hyperparameters={"optimizer": evil}, columns={"drift/<i>$": [1.0, 2.0]})  # fmt: skip
  write_run(tmp_path / "runs", "_hidden", [0.5, 0.6], task=evil, details={"alpha": evil})
  assert report.main([str(tmp_path / "runs"), f"--output={tmp_path / 'out'}"]) == 0
  text = (tmp_path / "out" / "index.html").read_text()
  parser = _Tags()
  parser.feed(text)
  scripts = [attributes for tag, attributes in parser.seen if tag == "script"]
  assert scripts == [{"type": "application/json", "id": "data"}, {}]
  assert "i" not in {tag for tag, _ in parser.seen}
  addresses = [
    v or "" for _, attrs in parser.seen for k, v in attrs.items() if k in ("src", "href")
  ]
  assert all(each.startswith(("#", "data:image/svg+xml;", "data:text/csv;")) for each in addresses)
  assert not [k for _, attrs in parser.seen for k in attrs if k.startswith("on") or k == "style"]
  assert sum(tag == "img" for tag, _ in parser.seen) == 7
  for path in (tmp_path / "out" / "tables").glob("*.tex"):
    body = re.sub(r"\\[\\{}$&#%_]", "", path.read_text())
    assert body.count("{") == body.count("}")
    assert body.count("$") % 2 == 0
    assert r"\input" not in body
    rows = body[body.index("midrule") : body.index("bottomrule")].strip().splitlines()[1:-1]
    assert len({row.count("&") for row in rows}) == 1
  for path in (tmp_path / "out" / "tables").glob("*.md"):
    lines = [line for line in path.read_text().splitlines() if line.startswith("|")]
    assert len({len(re.findall(r"(?<!\\)\|", line)) for line in lines}) == 1


def test_starts_without_tensorflow(tmp_path):
  write_run(tmp_path / "runs", "fedavg", [0.5])
  code = (
    "import sys; from experiments import report; "
    f"code = report.main([{str(tmp_path / 'runs')!r}, '--output={tmp_path / 'out'}']); "
    "print(code, 'tensorflow' in sys.modules)"
  )
  done = subprocess.run(
    [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, timeout=120
  )
  assert done.stdout.splitlines()[-1] == "0 False", done.stderr


@pytest.mark.slow
def test_from_run_to_report(tmp_path):
  for algo in ("fedavg", "ghbm"):
    subprocess.run(
      [sys.executable, "experiments/run.py", "--task=digits", f"--algo={algo}", "--total_rounds=4", "--quiet",
       f"--root_output_dir={tmp_path / 'runs'}"],
      cwd=ROOT, check=True, timeout=300, stdout=subprocess.DEVNULL,
    )  # fmt: skip
  done = subprocess.run(
    [sys.executable, "experiments/report.py", str(tmp_path / "runs"), f"--output={tmp_path / 'out'}"],
    cwd=ROOT, capture_output=True, text=True, timeout=120,
  )  # fmt: skip
  assert done.returncode == 0, done.stderr
  assert done.stderr == ""
  assert "The report on 2 runs is in" in done.stdout
  assert (tmp_path / "out" / "figures" / "digits_accuracy_rounds.png").stat().st_size > 10_000


def test_a_run_that_diverged_before_its_first_evaluation_is_reported_as_such(tmp_path):
  for seed in (1, 2):
    write_run(tmp_path / "runs", "fedavg", [0.5, 0.6, 0.7], seed=seed)
  lost = {"eval/loss": [None, None], "train/loss": [1e30, math.nan]}
  write_run(tmp_path / "runs", "ghbm", [None, None], columns=lost)
  assert report.main([str(tmp_path / "runs"), f"--output={tmp_path / 'out'}"]) == 0
  assert "×" in (tmp_path / "out" / "index.html").read_text(encoding="utf-8")


def test_the_policy_allows_this_script_and_style_only(tmp_path):
  write_run(tmp_path / "runs", "fedavg", [0.5, 0.6])
  report.main([str(tmp_path / "runs"), f"--output={tmp_path / 'out'}"])
  text = (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
  policy = dict(
    rule.split(" ", 1)
    for rule in re.search(r'Content-Security-Policy content="(.*?)"', text)[1].split("; ")
  )
  code = re.search(r"<script>(.*?)</script>", text, re.DOTALL)[1]
  style = re.search(r"<style>(.*?)</style>", text, re.DOTALL)[1]

  def named(source):
    return f"'sha256-{base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()}'"

  closed = dict.fromkeys(("default-src", "base-uri", "form-action"), "'none'")
  allowed = {"img-src": "data:", "script-src": named(code), "style-src": named(style)}
  assert policy == closed | allowed


def test_unfinished_runs_are_shown_as_such_and_judged_in_no_table(tmp_path):
  write_run(tmp_path / "runs", "fedavg", [0.5, 0.6, 0.7, 0.8])
  write_run(tmp_path / "runs", "ghbm", [0.5, 0.9], total_rounds=4, finished=False, name="going_on")
  with (tmp_path / "runs" / "going_on" / "metrics.csv").open("a") as file:
    file.write("3,0.1")  # a row that is being written
  assert report.main([str(tmp_path / "runs"), f"--output={tmp_path / 'out'}"]) == 0
  tables = tmp_path / "out" / "tables"
  (row,) = csv.DictReader((tables / "unfinished.csv").open())
  assert (row["Algorithm"], row["Progress"]) == ("GHBM", "round 2 of 4")
  assert row["Last evaluation"] == "accuracy 90.0"
  others = [p for p in tables.glob("*.csv") if p.stem != "unfinished"]
  assert all("ghbm" not in path.read_text().lower() for path in others)
  text = (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
  assert "1 finished run · 1 unfinished run · 1 method" in text
  (setting,) = json.loads(re.search(r"<script type=.*? id=data>(.*?)</script>", text)[1])
  assert [(s["label"], s["state"], s["final"]) for s in setting["series"]] == [
    ("FedAvg", "finished", "75.0"),
    ("going_on", "unfinished", "2/4"),
  ]
  assert setting["series"][1]["columns"]["eval/accuracy"] == {"rounds": [1, 2], "mean": [50, 90]}


def test_configuration_differences_between_runs_of_a_method(tmp_path):
  for seed, revision in ((1, "abc"), (2, "abc"), (3, "def")):
    write_run(tmp_path, "ghbm", [0.5], seed=seed, versions={"git": revision})
    write_run(tmp_path, "fedavg", [0.5], seed=seed)
  write_run(tmp_path, "ghbm", [0.5], seed=1, hyperparameters={"beta": 0.5}, versions={"git": "def"})
  (setting,), _ = compared(tmp_path)
  table = differences.differences_table(setting)
  assert [[cell.text for cell in row] for row in table.rows] == [
    ["GHBM", "versions.git", "abc (2 runs), def (2 runs)"],
    ["GHBM", "hyperparameters.beta", "not given (3 runs), 0.5 (1 run)"],
  ]


def test_long_curves_are_thinned_and_keep_their_ends(tmp_path):
  write_run(tmp_path, "fedavg", [t / 5000 for t in range(5000)])
  (setting,), _ = compared(tmp_path)
  ((series,),) = [each["series"] for each in json.loads(chart_data.to_json([setting]))]
  rounds = series["columns"]["eval/accuracy"]["rounds"]
  assert (rounds[0], rounds[-1]) == (1, 5000)
  assert 300 < len(rounds) <= chart_data.MAX_POINTS
