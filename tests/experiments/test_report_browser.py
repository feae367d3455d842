"""The report in a real Chromium: charts, filter, theme, print, and no request that leaves the page."""

import json
import math
import time

import matplotlib.image
import numpy as np
import pytest

from experiments import report
from experiments.reports import palette
from tests.helpers import browser as browsers
from tests.helpers.report_runs import write_run
from tff_momentum.registry import ALGORITHMS

pytestmark = [
  pytest.mark.slow,
  pytest.mark.skipif(not browsers.can_be_driven(), reason="no Chromium with chromedriver here"),
]
CHART = ".charts > .chart"


def write_report(folder, algorithms, rounds=30):
  """A report on two seeds of each algorithm, whose accuracies rise at different rates."""
  norms = [1 / (t + 1) for t in range(rounds)]
  for seed in (1, 2):
    for k, algo in enumerate(algorithms):
      top = 0.6 + 0.3 * ((7 * k) % len(algorithms)) / len(algorithms)
      values = [top * (1 - math.exp(-(t + 1) / 6)) + seed / 100 for t in range(rounds)]
      write_run(folder / "runs", algo, values, seed=seed, columns={"update_norm": norms})
  write_run(folder / "runs", "mime", [0.3, 0.4, 0.5], seed=7, total_rounds=rounds, finished=False,
            name="going_on", columns={"update_norm": norms[:3]})  # fmt: skip
  assert report.main([str(folder / "runs"), f"--output={folder / 'out'}"]) == 0
  return (folder / "out" / "index.html").as_uri()


@pytest.fixture(scope="module")
def window(tmp_path_factory):
  with browsers.browser(tmp_path_factory.mktemp("profile")) as opened:
    opened.resize(1400, 1000)
    yield opened


@pytest.fixture(scope="module")
def three(tmp_path_factory):
  return write_report(tmp_path_factory.mktemp("three"), ["fedavg", "ghbm", "scaffold"])


@pytest.fixture(scope="module")
def all_methods(tmp_path_factory):
  return write_report(tmp_path_factory.mktemp("all"), list(ALGORITHMS))


@pytest.fixture
def page(window, three):
  """The page with three methods, freshly loaded; it must leave no error and ask for nothing."""
  window.requests()
  window.open(three)
  window.script("localStorage.clear()")
  window.open(three)
  yield window
  assert window.log() == []
  assert {each for each in window.requests() if not each.startswith("data:")} == {three}


def labels(window):
  """The curves in colour."""
  return window.script(
    "return [...document.querySelectorAll('.charts .series')].map(s => s.dataset.label)"
  )


def hover(window, share, selector=CHART):
  """Moves the pointer over a chart, to this share of its width; returns the values shown."""
  window.script("document.querySelector(arguments[0]).scrollIntoView({block: 'center'})", selector)
  left, top, width, height = window.script(
    "const r = document.querySelector(arguments[0]).getBoundingClientRect();"
    "return [r.left, r.top, r.width, r.height]", selector
  )  # fmt: skip
  window.move_to(left + share * width, top + 0.4 * height)
  return window.script(
    "const tip = document.getElementById('tip'); return tip.hidden ? '' : tip.innerText"
  )


def test_hovering_shows_the_values_of_the_round(page):
  text = hover(page, 0.6)
  (round_number,) = [int(w) for w in text.split("\n")[0].split() if w.isdigit()]
  # Seeds 1 and 2 add 1 and 2 points: GHBM has a mean of 1.5 points above its curve, ± √0.5.
  top = 0.6 + 0.3 * (7 % 3) / 3
  expected = 100 * (top * (1 - math.exp(-round_number / 6)) + 0.015)
  (line,) = [line for line in text.split("\n") if "GHBM" in line]
  value, deviation = line.split("GHBM")[1].split("±")
  assert float(value) == pytest.approx(expected, rel=1e-3)
  assert float(deviation) == pytest.approx(100 * math.sqrt(0.00005), rel=0.02)
  page.move_to(5, 5)
  assert page.script("return document.getElementById('tip').hidden")


def test_the_values_shown_have_the_same_number_of_digits(page):
  rows = [line.rsplit("\t", 1)[-1] for line in hover(page, 0.6).split("\n") if "±" in line]
  assert len(rows) == 3
  assert {len(value.split("±")[0].strip()) for value in rows} == {len("12.34")}


def test_a_narrow_window_needs_no_scrolling_to_the_side(page):
  page.resize(420, 900)
  try:
    shown = page.script("const e = document.documentElement; return [e.scrollWidth, e.clientWidth]")
    assert shown[0] == shown[1]
  finally:
    page.resize(1400, 1000)


def test_the_keyboard_shows_values_too(page):
  page.script("document.querySelector('.chart').focus()")
  page.type_keys("\ue014\ue014")  # two arrows to the right
  assert "GHBM" in page.script("return document.getElementById('tip').innerText")


def test_metric_axes_and_smoothing_can_be_chosen(page):
  page.choose("[name=metric]", "update_norm")
  assert "Norm of the server’s update" in page.script(
    "return document.querySelector('.chart').textContent"
  )
  page.choose("[name=metric]", "train/loss")
  page.choose("[name=x]", "bytes")
  assert " kB" in page.script("return document.querySelector('.axes').textContent")
  first = page.script("return document.querySelector('.line').getAttribute('d')")
  page.click("[name=logY]")
  second = page.script("return document.querySelector('.line').getAttribute('d')")
  page.click("[name=logX]")
  third = page.script("return document.querySelector('.line').getAttribute('d')")
  page.script(
    "const s = document.querySelector('[name=smooth]'); s.value = 2; s.dispatchEvent(new Event('input'))"
  )
  fourth = page.script("return document.querySelector('.line').getAttribute('d')")
  assert len({first, second, third, fourth}) == 4
  assert page.script("return document.querySelector('.controls output').textContent") == "mean of 5"
  assert "NaN" not in fourth
  assert "not smoothed" in hover(page, 0.7)


def test_a_smoothed_point_is_the_mean_of_its_neighbours(page):
  page.script(
    "const s = document.querySelector('[name=smooth]'); s.value = 1; s.dispatchEvent(new Event('input'))"
  )
  text = hover(page, 0.5)
  (t,) = [int(w) for w in text.split("\n")[0].split() if w.isdigit()]
  (line,) = [line for line in text.split("\n") if "FedAvg" in line]
  expected = np.mean([100 * (0.6 * (1 - math.exp(-r / 6)) + 0.015) for r in (t - 1, t, t + 1)])
  assert float(line.split("FedAvg")[1].split("±")[0]) == pytest.approx(expected, rel=1e-3)


def test_the_unfinished_run_is_in_the_chart_and_marked(page):
  assert set(labels(page)) == {"FedAvg", "GHBM", "SCAFFOLD", "going_on"}
  assert page.script("return document.querySelector('.legend .unfinished').innerText").split() == [
    "going_on",
    "3/30",
  ]
  assert page.script("return document.querySelectorAll('.series .open').length") == 1


def test_the_filter_finds_methods_among_all(window, all_methods):
  window.open(all_methods)
  window.log()
  window.requests()
  total = len(ALGORITHMS) + 1
  shown = labels(window)
  assert len(shown) == 8 + 2  # the best eight, FedAvg, and the unfinished run
  assert "FedAvg" in shown
  assert f"10 of {total} curves" in window.script(
    "return document.querySelector('.count').innerText"
  )
  window.type("[name=filter]", "mime, ghbm")
  assert set(labels(window)) == {"Mime", "MimeLite", "MimeXlite", "MimeMVR", "GHBM", "LocalGHBM"}
  window.click(".legend li:first-child input")
  assert len(labels(window)) == 5
  window.type("[name=filter]", " ")
  assert labels(window) == shown
  window.click(".buttons button")  # all
  assert len(labels(window)) == total
  window.choose("[name=view]", "multiples")
  assert window.script("return document.querySelectorAll('.multiple').length") == total
  first = window.script("return document.querySelector('.multiple h4').textContent")
  assert first in hover(window, 0.5, ".multiple:nth-child(1) .chart")
  assert window.log() == []
  assert [each for each in window.requests() if not each.startswith("data:")] == []


def background(window):
  return window.script("return getComputedStyle(document.body).backgroundColor")


def wait_until(holds):
  """Waits: the page hears of a change of the system's theme a little later."""
  deadline = time.monotonic() + 20
  while not holds():
    assert time.monotonic() < deadline
    time.sleep(0.05)


def set_system_theme(window, name):
  feature = {"name": "prefers-color-scheme", "value": name}
  window.emulate("Emulation.setEmulatedMedia", features=[feature])


def test_the_theme_follows_the_system_and_the_switch(page):
  light = background(page)
  colour = (
    "return document.querySelector('.series[data-label=FedAvg] .line').getAttribute('stroke')"
  )
  assert page.script(colour) == "#000000"
  set_system_theme(page, "dark")
  dark = background(page)
  assert dark != light
  wait_until(lambda: page.script(colour) > "#dddddd")  # black would not be seen
  page.choose("#theme", "light")
  assert background(page) == light
  set_system_theme(page, "")
  page.choose("#theme", "dark")
  assert background(page) == dark
  page.call("POST", "refresh")
  assert background(page) == dark  # the choice is remembered
  page.choose("#theme", "")
  assert background(page) == light


def test_print_and_a_page_without_scripts_show_the_static_figures(page, three, tmp_path):
  visible = "return [...document.querySelectorAll('{}')].filter(e => e.offsetHeight > 0).length"
  static, interactive = visible.format(".curves"), visible.format(".interactive")
  count = page.script("return document.querySelectorAll('.curves').length")
  assert (page.script(static), page.script(interactive)) == (0, 1)
  page.emulate("Emulation.setEmulatedMedia", media="print")
  assert (page.script(static), page.script(interactive)) == (count, 0)
  page.emulate("Emulation.setEmulatedMedia", media="")
  page.emulate("Emulation.setScriptExecutionDisabled", value=True)
  page.open(three)
  page.full_screenshot(tmp_path / "page.png")
  page.emulate("Emulation.setScriptExecutionDisabled", value=False)
  pixels = matplotlib.image.imread(tmp_path / "page.png")[..., :3]
  for algo in ("fedavg", "ghbm", "scaffold"):
    colour = np.array(matplotlib.colors.to_rgb(palette.style(algo).colour))
    assert np.sum(np.all(np.abs(pixels - colour) < 0.02, axis=-1)) > 500, algo


def test_names_with_markup_are_texts_in_the_charts(window, tmp_path):
  evil = "</script><img src=x onerror=alert(1)>"
  write_run(tmp_path / "runs", evil, [0.5, 0.6])
  write_run(tmp_path / "runs", "fedavg", [0.5, 0.6], finished=False, name="<i>x")
  assert report.main([str(tmp_path / "runs"), f"--output={tmp_path / 'out'}"]) == 0
  window.log()
  window.open((tmp_path / "out" / "index.html").as_uri())
  assert set(labels(window)) == {evil, "<i>x"}
  hover(window, 0.9)
  assert window.script("return document.querySelectorAll('img[src=x], i').length") == 0
  assert window.log() == []


def test_a_script_that_is_not_the_pages_own_does_not_run(window, three, tmp_path):
  name = three.removeprefix("file://")
  with open(name, encoding="utf-8") as file:
    text = file.read()
  changed = tmp_path / "changed.html"
  changed.write_text(text.replace("</main>", "<script>document.title = 'ran'</script></main>"))
  window.log()
  window.open(changed.as_uri())
  assert window.script("return document.title") != "ran"
  assert any("Content Security Policy" in entry["message"] for entry in window.log())


def test_the_csv_links_hold_the_tables(page):
  links = page.script(
    "return [...document.querySelectorAll('a.csv')].map(a => [a.download, atob(a.href.split(',')[1])])"
  )
  tables = page.script("return document.querySelectorAll('main table').length")
  assert len(links) == tables
  final = dict(links)["final.csv"]
  assert final.splitlines()[0].startswith("Method,digits; accuracy (%)")
  assert json.dumps(final).count("FedAvg") == 1
