"""The page "Compose it yourself": all blocks run in order, and its commands with the files that it shows."""

import os
import shlex
import subprocess
import sys

import pytest

from tests import ROOT
from tests.docs import pages

PAGE = ROOT / "docs/compose_it_yourself.md"
BLOCKS = pages.blocks(PAGE, "python")
FILES = {block.split()[1]: block for block in BLOCKS if block.startswith("# my_")}
# What a command of each program gets in addition, so that a test takes seconds.
SHORTER = {
  "run.py": ["--total_rounds=3", "--quiet", "--lean"],
  "sweep.py": ["--total_rounds=3", "--lean"],
}


def python(arguments, folder, **environment):
  return subprocess.run(
    [sys.executable, *arguments],
    cwd=folder,
    capture_output=True,
    text=True,
    timeout=600,
    env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", **environment},
  )


def test_the_blocks_run_in_order(tmp_path):
  (tmp_path / "page.py").write_text("\n\n".join(b for b in BLOCKS if b not in FILES.values()))
  first = python(["page.py"], tmp_path, PYTHONPATH=str(ROOT))
  assert first.returncode == 0, first.stderr
  assert (
    "measured by the aggregator: ['clipped_count', 'clipping', 'clipping_norm']" in first.stdout
  )
  words = [line for line in first.stdout.splitlines() if line.startswith("accuracy ")]
  assert float(words[0].split()[1]) > 0.8
  assert (tmp_path / "my_run" / "checkpoints").exists()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
  made = tmp_path_factory.mktemp("mine")
  for name, text in FILES.items():
    (made / name).write_text(text)
  return made


@pytest.mark.parametrize(
  "command", pages.commands(PAGE), ids=lambda command: command.split()[1][28:]
)
def test_the_commands_run_with_the_files_of_the_page(command, folder):
  words = shlex.split(command.replace("~/tff_momentum", str(ROOT)))[1:]
  program = words[0].rsplit("/", 1)[1]
  result = python([*words, *SHORTER.get(program, [])], folder)
  assert result.returncode == 0, result.stdout + result.stderr
  if program == "run.py":
    assert (folder / "runs/my_tasks.quadrants_my_algorithms.scaled_fedavg_1/summary.json").exists()
    assert "client_learning_rate=0.2. Clients take half the step" in result.stdout
  if program == "report.py":
    assert "my_algorithms:scaled_fedavg" in (folder / "report/index.html").read_text()
  if program == "describe.py":
    assert "FedAvg whose server multiplies the mean update by scale." in result.stdout
