"""Every algorithm gives the same results in process as on TFF's worker, and always the same bits."""

import pytest

from tff_momentum import algorithms, testing
from tff_momentum.registry import ALGORITHMS

QUICK = ("scaffold", "mime", "fedglomo")


@pytest.mark.parametrize("check", ["parallel_clients", "tff_worker"])
@pytest.mark.parametrize(
  "name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in ALGORITHMS]
)
def test_an_algorithm_equals_itself_on_every_runtime(name, check):
  testing.run_check(check, algorithms.builder(name))
