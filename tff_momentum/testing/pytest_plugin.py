"""The pytest plugin: a fixture that makes each check of the contract a test.

    def test_my_algorithm(algorithm_check):
      algorithm_check(my_builder, client_learning_rate=0.05)

pytest finds the plugin by its entry point. `-k 'not ray and not gpu_audit'` leaves checks out.
"""

from collections.abc import Callable
from typing import Any

import pytest

from tff_momentum import testing


@pytest.fixture(params=testing.CHECKS)
def algorithm_check(request: pytest.FixtureRequest) -> Callable[..., None]:
  """One check of `tff_momentum.testing`: call it with a builder and its hyperparameters."""

  def check(builder: Callable[..., Any], /, **hyperparameters: Any) -> None:
    __tracebackhide__ = True  # pytest shows the sentence, not this file
    failure, skip = "", ""
    try:
      testing.run_check(request.param, builder, **hyperparameters)
    except testing.ContractError as error:
      failure = str(error)
    except testing.SkippedCheck as reason:
      skip = str(reason)
    if skip:
      pytest.skip(skip)
    if failure:
      pytest.fail(f"{request.param}: {failure}", pytrace=False)

  return check
