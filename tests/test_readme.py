"""The README's example and commands, run as they are printed."""

import re
import shlex
import subprocess
import sys

import pytest

from tests import ROOT
from tests.docs import pages

COMMANDS = pages.commands(pages.README)
# What a command of each program gets in addition, so that a test takes seconds.
SHORTER = {
  "experiments/run.py": "--total_rounds=1 --quiet --lean --root_output_dir={out}",
  "experiments/sweep.py": "--total_rounds=1 --lean --root_output_dir={out}",
  "experiments/doctor.py": "--help",  # tests/experiments/test_doctor.py runs it
}


def run(argv, **options):
  return subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, **options)


def test_the_example_trains():
  (example,) = pages.blocks(pages.README, "python")
  assert example.count("\n") <= 40
  result = run([sys.executable, "-c", example])
  assert result.returncode == 0, result.stderr
  assert float(result.stdout.split()[-1]) > 0.9


@pytest.fixture(scope="module")
def out(tmp_path_factory):
  return tmp_path_factory.mktemp("readme")


@pytest.mark.parametrize("command", [c for c in COMMANDS if c.startswith("python ")])
def test_the_everyday_commands_run(command, out):
  program = command.split()[1]
  words = shlex.split(command + " " + SHORTER.get(program, "").format(out=out))
  if program == "experiments/report.py":
    words = [
      {"runs": str(out), "--output=report": f"--output={out}/report"}.get(w, w) for w in words
    ]
    made = run([sys.executable, *shlex.split("experiments/run.py --task=digits --algo=fedavg"),
                *shlex.split(SHORTER["experiments/run.py"].format(out=out))])  # fmt: skip
    assert made.returncode == 0, made.stderr
  result = run([sys.executable, *words[1:]], timeout=600)
  assert result.returncode == 0, result.stderr


def test_ci_runs_the_other_commands():
  """Those that install or take minutes: .ci/run has each of them, with its own names of pip and uv."""
  script = (ROOT / ".ci" / "run").read_text().replace("\\\n", " ")
  script = script.replace("$run", re.findall(r'^run="(.*)"$', script, re.MULTILINE)[0])
  script = re.sub(r'"?\$uv"?', "uv", script)
  script = re.sub(r'"\$work/\w+/bin/(\w+)"', r"\1", script)
  script = " ".join(script.replace("--quiet ", "").split())
  installing = [c for c in COMMANDS if not c.startswith("python ")]
  for command in [part for c in installing for part in c.split(" && ")]:
    assert command in script, command
