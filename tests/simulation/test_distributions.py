"""Distributions: their means, their traces, and errors about texts that are not distributions."""

import functools

import numpy as np
import pytest

from tff_momentum.simulation import distributions


def test_distributions_have_their_means(tmp_path):
  rng, clients = np.random.default_rng(1), np.arange(20000)
  for text, mean in (("3", 3), ("constant(2)", 2), ("uniform(1, 3)", 2), ("lognormal(5, 0.5)", 5)):
    assert distributions.parse("x", text).draw(rng, clients, 0).mean() == pytest.approx(
      mean, rel=0.02
    )
  (tmp_path / "trace.csv").write_text("1,2\n5\n")
  trace = distributions.parse_integers("x", f"trace:{tmp_path / 'trace.csv'}")
  assert trace.draw(rng, clients[:3], 0).tolist() == [1, 5, 1]
  assert trace.draw(rng, clients[:3], 3).tolist() == [2, 5, 2]


BAD_DISTRIBUTIONS = [
  "", "fast", "gauss(1, 2)", "uniform(1)", "uniform(3, 1)", "uniform(0, 1)", "constant(-1)",
  "constant(nan)", "lognormal(0, 1)", "lognormal(1, -1)", "lognormal('a', 1)", "[1]", "trace:nowhere.csv",
  "__import__('os')", "constant(constant(1))",
]  # fmt: skip


@pytest.mark.parametrize("text", BAD_DISTRIBUTIONS)
@pytest.mark.parametrize(
  "parse",
  [functools.partial(distributions.parse, above=0), distributions.parse_integers],
  ids=["real numbers", "integers"],
)
def test_a_bad_distribution_is_refused_in_one_sentence(text, parse):
  with pytest.raises(ValueError, match="client_speed") as error:
    parse("client_speed", text)
  assert "\n" not in str(error.value)
  assert str(error.value)[-1] in ".?"


@pytest.mark.parametrize("text", ["", "a\n", "1\n0\n", "1,,2\n", "1 2\n"])
def test_a_bad_trace_is_refused_in_one_sentence(tmp_path, text):
  (tmp_path / "trace.csv").write_text(text)
  with pytest.raises(ValueError, match=r"trace\.csv") as error:
    distributions.parse("client_speed", f"trace:{tmp_path / 'trace.csv'}", above=0)
  assert "\n" not in str(error.value)
