"""The tables in the docs that programs generate are current."""

import re

import tasks
from tasks.models import catalogue
from tests import ROOT
from tests.docs import pages
from tff_momentum import describe


def between(page: str, mark: str) -> str:
  (table,) = re.findall(
    rf"<!-- {mark} -->\n(.*?)\n<!-- /{mark} -->", pages.text(ROOT / "docs" / page), re.DOTALL
  )
  return table


def test_the_table_of_algorithms():
  assert between("algorithms.md", "algorithms") == describe.table(describe.linear_model())


def test_the_digest_in_the_readme_has_ten_of_its_rules():
  rules = {}
  for line in between("algorithms.md", "algorithms").splitlines()[2:]:
    name, source, _, _, rule, _ = (cell.strip() for cell in line.strip("|").split(" | "))
    rules[name] = (source, rule)
  digest = re.findall(r"^\| (`\w+`) \| ([^|]+) \| (.+) \|$", pages.text(pages.README), re.MULTILINE)
  assert len(digest) == 10
  assert all(rules[name] == (source, rule) for name, source, rule in digest)
  assert f"has {len(rules)}\nalgorithms" in pages.text(pages.README)


def test_the_table_of_models():
  assert between("tasks.md", "models") == catalogue.table()
  assert {row.task for row in catalogue.ROWS} == set(tasks.TASKS) - {"quadratic"}
