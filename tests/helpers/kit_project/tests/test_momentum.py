"""The algorithm passes the kit's checks, and the kit finds every bug and says what is wrong."""

import pytest
from my_momentum import bugs, oracle
from my_momentum.momentum import momentum

from tff_momentum import testing

RATE = {"client_learning_rate": 0.05}
# Bug -> what the message must say.
FOUND = {
  "wrong_sign": r"loss: Expected the loss .* to fall from .*; found .*usual cause is a wrong sign",
  "changing_type": r"last server_update to return the type of state .*float64.* must keep",
  "changing_client_type": r"client_update to return the type of state that init_client returns",
  "unseeded": r"seeds: Expected two runs with the same seeds .*; found that .*unseeded randomness",
  "drawn_at_build": r"seeds: Expected two runs with the same seeds .*differs by .*unseeded randomness",
  "hidden_state": r"resume: Expected a run that resumes .* server/x/0 differs .*a Python variable",
  "hides_nan": r"non_finite: Expected 1 rejected update .*; found 0.*can hide it",
  "too_many_bytes": r"bytes: Expected upload_bytes of exchange 0 to be .*; found 80",
}
OTHERS = ("tff_worker", "ray", "gpu_audit")  # they start processes; no bug here needs them


def test_my_algorithm(algorithm_check):
  algorithm_check(momentum, **RATE)


def test_my_algorithm_equals_its_numpy_version():
  testing.compare_with_oracle(momentum, oracle.momentum, client_learning_rate=0.1, beta=0.9)


@pytest.mark.parametrize("name", FOUND)
def test_a_bug_is_found(name):
  with pytest.raises(testing.ContractError, match=FOUND[name]) as caught:
    testing.check_algorithm(getattr(bugs, name), without=OTHERS, **RATE)
  print(f"\n{caught.value}")


def test_ignored_weights_are_found():
  said = "without_weights and its oracle .* differ by .* after round 0.*client_weighting"
  with pytest.raises(testing.ContractError, match=said) as caught:
    testing.compare_with_oracle(bugs.without_weights, oracle.momentum, client_learning_rate=0.1)
  print(f"\n{caught.value}")


def test_an_operation_without_a_gpu_kernel_is_found():
  with pytest.raises(testing.ContractError, match="found none for StatelessShuffle") as caught:
    testing.run_check("gpu_audit", bugs.shuffled, **RATE)
  print(f"\n{caught.value}")
