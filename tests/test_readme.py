"""The README's own text, run as it stands."""

import re
import subprocess
import sys

import tasks
from tasks import digits
from tasks.models import catalogue
from tests import ROOT
from tff_momentum import describe

README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_example_trains():
  (example,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
  assert example.count("\n") <= 45
  result = subprocess.run([sys.executable, "-c", example], cwd=ROOT, capture_output=True, text=True)
  assert result.returncode == 0, result.stderr
  accuracy = float(result.stdout.split()[-1])
  assert accuracy > 0.85


def test_every_file_it_names_exists():
  for path in re.findall(r"\]\(([^)#:]+)\)", README):
    assert (ROOT / path).exists(), path


def test_the_table_of_algorithms_is_current():
  (written,) = re.findall(r"<!-- algorithms -->\n(.*?)\n<!-- /algorithms -->", README, re.DOTALL)
  assert written == describe.table(digits.load(seed=1))


def test_the_table_of_models_is_current():
  (written,) = re.findall(r"<!-- models -->\n(.*?)\n<!-- /models -->", README, re.DOTALL)
  assert written == catalogue.table()
  assert {row.task for row in catalogue.ROWS} == set(tasks.TASKS) - {"quadratic"}
