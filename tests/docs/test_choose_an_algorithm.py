"""The page "Choosing an algorithm": its numbers are those of the results, its commands are valid."""

import re
import shlex
import subprocess
import sys

import pytest
from absl import flags

from experiments.cli import flags as run_flags
from experiments.cli import run_request
from experiments.training import build
from tests import ROOT
from tests.docs import pages

PAGE = ROOT / "docs/choose_an_algorithm.md"
RESULTS = ROOT / "experiments/RESULTS.md"
COMMANDS = pages.commands(PAGE)


def rows(page):
  """The cells of the rows that name an algorithm in their first or second cell."""
  lines = re.findall(r"^\| .*`\w+` \|.* \|$", pages.text(page), re.MULTILINE)
  return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


def test_every_number_is_in_the_results():
  results = pages.text(RESULTS)
  numbers = re.findall(r"\d+\.\d ± \d+\.\d %", pages.text(PAGE))
  assert len(numbers) > 15
  assert [number for number in numbers if number not in results] == []
  for ratio in re.findall(r"(\d\.\d\d) of ", pages.text(PAGE)):
    assert re.search(rf"FedAvg(?: \(all its rounds\))? = {ratio}\.", results), ratio


def test_a_number_is_in_the_section_that_its_link_names():
  sections = dict(re.findall(r"^## (\w+)\n(.*?)(?=^## |\Z)", pages.text(RESULTS), re.M | re.S))
  for _, _, _, _, measured in rows(PAGE):
    links = re.findall(r"RESULTS\.md#(\w+)", measured)
    cited = " ".join(sections[link] for link in links)
    assert all(number in cited for number in re.findall(r"\d+\.\d ± \d+\.\d %", measured)), measured


def test_bytes_and_states_are_those_of_the_table_of_algorithms():
  known = {cells[0]: tuple(cells[2:4]) for cells in rows(ROOT / "docs/algorithms.md")}
  found = [(name, (sent, state)) for _, name, sent, state, _ in rows(PAGE)]
  assert len(found) == 14
  assert [(name, cost) for name, cost in found if known[name] != cost] == []


def test_every_algorithm_of_the_table_has_a_command():
  used = {re.search(r"--algo=(\w+)", command)[1] for command in COMMANDS}
  assert {cells[1].strip("`") for cells in rows(PAGE)} <= used


@pytest.fixture
def _flags():
  if "task" not in flags.FLAGS:
    run_flags.define_flags()
  yield
  for name in flags.FLAGS:
    flags.FLAGS[name].unparse()


@pytest.mark.usefixtures("_flags")
@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_is_valid(command):
  """As far as can be told without training; the slow test below trains."""
  for name in flags.FLAGS:  # those of earlier tests in this process
    flags.FLAGS[name].unparse()
  run_flags.parse(shlex.split(command)[1:])
  request = run_request.from_flags(flags.FLAGS)
  build.check_values(request.algo, request.hyperparameters)
  build.check_compression(request.compression)


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_trains(command, tmp_path):
  words = shlex.split(command)[1:]
  more = ["--total_rounds=2", "--quiet", "--lean", f"--root_output_dir={tmp_path}"]
  done = subprocess.run(
    [sys.executable, *words, *more], cwd=ROOT, capture_output=True, text=True, timeout=300
  )
  assert done.returncode == 0, done.stderr
