"""The registry agrees with the builders it describes."""

import importlib
import inspect

import pytest

from tests import ROOT
from tff_momentum import algorithms, papers
from tff_momentum.registry import ALGORITHMS, REQUIRED

every_algorithm = pytest.mark.parametrize("name", ALGORITHMS)


@every_algorithm
def test_hyperparameters_are_those_of_the_builders_signature(name):
  """Names, order and defaults, to the type: 1 is not 1.0."""
  parameters = inspect.signature(algorithms.builder(name)).parameters
  signature = [
    (key, REQUIRED if p.default is inspect.Parameter.empty else p.default)
    for key, p in parameters.items()
  ]
  registered = list(ALGORITHMS[name].hyperparameters.items())
  assert registered == signature
  assert [type(value) for _, value in registered] == [type(value) for _, value in signature]


@every_algorithm
def test_the_module_defines_the_builder(name):
  module = f"tff_momentum.algorithms.{ALGORITHMS[name].module}"
  assert inspect.unwrap(algorithms.builder(name)).__module__ == module


@every_algorithm
def test_every_source_is_a_known_paper(name):
  assert ALGORITHMS[name].paper in papers.PAPERS


def test_the_page_of_papers_is_current():
  written = (ROOT / "docs" / "papers.md").read_text(encoding="utf-8")
  assert written == papers.page(), "run: python -m tff_momentum.papers > docs/papers.md"


def test_papers_have_links_and_no_two_the_same():
  links = [paper.link for paper in papers.PAPERS.values() if paper.link]
  assert len(links) == len(set(links)) == len(papers.PAPERS) - 1  # the slides have none
  assert all(link.startswith(("https://arxiv.org/abs/", "https://doi.org/10.")) for link in links)


def test_every_algorithm_has_one_builder_that_the_package_exports():
  assert list(algorithms.BUILDERS) == list(ALGORITHMS)
  others = {"ALGORITHMS", "BUILDERS", "REFERENCE_LINES", "build", "builder"}
  assert set(algorithms.__all__) == {*others, *ALGORITHMS}
  for name, builder in algorithms.BUILDERS.items():
    assert getattr(algorithms, name) is builder


@every_algorithm
def test_a_module_opens_with_its_papers_title_and_link(name):
  module = importlib.import_module(f"tff_momentum.algorithms.{ALGORITHMS[name].module}")
  paper = papers.PAPERS[ALGORITHMS[name].paper]
  text = " ".join(module.__doc__.split())
  assert paper.title in text
  assert paper.link in text


@every_algorithm
def test_a_builders_docstring_is_complete(name):
  text = inspect.getdoc(algorithms.builder(name))
  for section in ("Args:", "Returns:", "Raises:", "Example:"):
    assert f"\n{section}\n" in text, section
  assert f"\n  >>> {name}(" in text
