"""The learning rates that a command line leaves out: tuned for the task and the algorithm, or derived.

`tff_momentum/default_rates.py` has the rules; `docs/default_rates.md` shows what they give.
"""

from collections.abc import Mapping
from typing import NamedTuple

from experiments.cli.assignments import settable
from tff_momentum.default_rates import LocalSgd, default_rates, reason


class DerivedRates(NamedTuple):
  """Learning rates that were not given.

  Attributes:
    values: the rates by name.
    reason: why they are what they are, in one sentence.
  """

  values: Mapping[str, float | str] = {}
  reason: str = ""


# (task, algorithm) -> values that were measured to be better than the rule's, with the measurement.
TUNED: dict[tuple[str, str], DerivedRates] = {
  ("stackoverflow", "mime"): DerivedRates(
    {"client_learning_rate": 0.316},
    "At the rate of plain SGD, Mime's loss on 699 real users is 6.72 after 40 rounds, FedAvg's 7.19.",
  ),
  ("stackoverflow", "fedglomo"): DerivedRates(
    {"client_learning_rate": 0.316},
    "At the rate of plain SGD, FedGLOMO's loss is 7.13 after 60 rounds of 2 clients, FedAvg's 7.40; at half "
    "of it, the loss is still near its start.",
  ),
  ("stackoverflow", "mime_mvr"): DerivedRates(
    {"client_learning_rate": 0.316},
    "At the rate of plain SGD, MimeMVR's loss is 7.13 after 60 rounds of 2 clients, FedAvg's 7.40; at the "
    "rule's 0.107 it is 9.01.",
  ),
  ("emnist_digits", "mime_mvr"): DerivedRates(
    {"client_learning_rate": 0.03},
    "After 40 rounds, accuracy is 0.53 at 0.01 and 0.78 at 0.032; at 0.05 it falls back from 0.80 to 0.37.",
  ),
  ("cifar10_dirichlet", "autofedgm_staged"): DerivedRates(
    {"stages": "stages_from(1000, 3, 1.3, 0.7, 0.9)"},
    "After 120 server steps with LeNet, the loss is 1.89, and it rises to 2.2 at the rule's rate of 2.59.",
  ),
  ("shakespeare", "fednova"): DerivedRates(
    {"client_learning_rate": 0.005},
    "Roles take 1 to 100 local steps, and FedNova moves all of them as far as the longest: its loss is 3.24 "
    "after 10 rounds, FedAvg's 3.11; at the rule's 0.228, and at 0.02, it rises to 7.",
  ),
}


def derive(
  task: str, algo: str, sgd: LocalSgd, hyperparameters: Mapping[str, object]
) -> DerivedRates:
  """Chooses the learning rates that are not among the hyperparameters that were given.

  Args:
    task: the name of the task.
    algo: the name of the algorithm, or `module:builder`.
    sgd: plain local SGD on the task.
    hyperparameters: the hyperparameters that were given.
  """
  from tff_momentum import algorithms  # TensorFlow is loaded by now, with the task

  known = settable(algo)
  builder = algorithms.builder(algo)
  rates = default_rates(builder, sgd, {**known, **hyperparameters})
  tuned = TUNED.get((task, algo))
  if tuned is not None and not hyperparameters:
    return DerivedRates({**rates, **tuned.values}, tuned.reason)
  # A builder of the user's own may call its rate otherwise, and then states it itself.
  missing = {
    name: rate for name, rate in rates.items() if name in known and name not in hyperparameters
  }
  return DerivedRates(missing, reason(builder))
