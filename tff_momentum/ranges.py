"""What values each hyperparameter takes, as literals: command lines check and show them without TensorFlow.

The builders have the last word. A test calls every builder at and beyond the bounds that are written here.

    >>> range_of("fedavgm", "beta").text
    'a number at least 0 and below 1, or a schedule'
    >>> check("fedavgm", "beta", 1.5)
    Traceback (most recent call last):
    ValueError: beta must be a finite number at least 0 and below 1; found 1.5.
"""

import dataclasses
from collections.abc import Mapping
from typing import Literal

from tff_momentum import call_syntax, validation
from tff_momentum.registry import ALGORITHMS, REFERENCE_LINES

SCHEDULES = ("constant", "step", "multistage", "exponential", "cosine", "polynomial")
INVERTIBLE = ("sgd", "sgdm", "rmsprop", "adagrad", "adam")  # FedGBO recovers gradients from steps
OPTIMIZERS = (*INVERTIBLE, "adamw", "lion", "muon")


@dataclasses.dataclass(frozen=True)
class Range:
  """The values of a hyperparameter.

  Attributes:
    kind: of a value.
    bounds: of a number, as `validation.number` takes them; of a whole number, `at_least` alone.
    names: the choices, or the functions of a text such as `sgdm(0.9)`.
    schedule: whether the number may change over the rounds.
    optional: whether None is a value.
  """

  kind: Literal["number", "whole", "choice", "boolean", "call"]
  bounds: Mapping[str, float] = dataclasses.field(default_factory=dict)
  names: tuple[str, ...] = ()
  schedule: bool = False
  optional: bool = False

  @property
  def text(self) -> str:
    """The range in words."""
    words = " and ".join(f"{name.replace('_', ' ')} {b:g}" for name, b in self.bounds.items())
    said = {
      "number": f"a number {words}".rstrip(),
      "whole": f"a whole number {words}",
      "choice": " or ".join(self.names),
      "boolean": "true or false",
      "call": " or ".join(f"{name}(…)" for name in self.names),
    }[self.kind]
    return (
      said + (", or a schedule" if self.schedule else "") + (" or None" if self.optional else "")
    )


def _number(*, schedule: bool = False, optional: bool = False, **bounds: float) -> Range:
  return Range("number", bounds, schedule=schedule, optional=optional)


def _schedule(**bounds: float) -> Range:
  return Range("number", bounds, schedule=True)


def _choice(*names: str) -> Range:
  return Range("choice", names=names)


_FRACTION = _schedule(at_least=0, at_most=1)
_COUNT = Range("whole", {"at_least": 1})

RANGES: dict[str, Range] = {
  "client_learning_rate": _schedule(above=0),
  "server_learning_rate": _schedule(above=0),
  "client_weighting": _choice("uniform", "num_examples"),
  "optimizer": Range("call", names=OPTIMIZERS),
  "stages": Range("call", names=("stages_from",)),
  "beta": _schedule(at_least=0, below=1),
  "beta_l": _schedule(at_least=0, below=1),
  "beta1": _number(at_least=0, below=1),
  "beta2": _number(at_least=0, below=1),
  "epsilon": _number(above=0),
  "v0": _number(at_least=0, optional=True),
  "nu": _schedule(),
  "mu": _schedule(at_least=0),
  "alpha": _number(above=0),
  "a": _FRACTION,
  "k_p": _number(below=0),
  "k_i": _number(above=0),
  "k_d": _number(above=0),
  "delta": _number(above=0),
  "kappa": _number(above=0),
  "xi": _number(above=0),
  "L": _number(above=0),
  "bits": Range("whole", {"at_least": 2}),
  "norm": _choice("l2", "max"),
  "bucket": Range("whole", {"at_least": 1}, optional=True),
  "tau": _COUNT,
  "rho": _schedule(at_least=0),
  "mix": _FRACTION,
  "gamma": _number(at_least=0, below=1),
  "decoupled_weight_decay": _number(at_least=0),
  "evaluate": _choice("last", "mean_of_two"),
  "aggregate": _choice("moves", "models"),
  "climb": _choice("normalised", "plain"),
  "duals": _choice("everyone", "cohort"),
  "effective_steps": _choice("auto", "norm", "steps"),
  "inner": _choice("adamw", "sgd"),
  "inner_state": _choice("keep", "reset"),
  "second_moment": _choice("tensor", "full"),
  "first_moment": _choice("round", "all"),
  "early": _choice("zero", "initial"),
  "nesterov": Range("boolean"),
  "option": _choice("I", "II"),
  "direction": _choice("forward", "reverse"),
  "tau_scaling": _choice("elapsed", "participation"),
  "first_round": _choice("none", "shared", "random"),
  "first_gradient": _choice("full", "batch"),
  # Facts about the task and the cohort, which run.py fills in.
  "num_clients": _COUNT,
  "total_examples": Range("whole", {"at_least": 1}, optional=True),
  "participation": _number(above=0, at_most=1, optional=True),
  "max_staleness": _COUNT,
}

# Where an algorithm's hyperparameter has another range than others of the same name.
OWN: dict[tuple[str, str], Range] = {
  ("fedsgd", "optimizer"): Range("call", names=(*OPTIMIZERS, "mvr")),
  ("fedgbo", "optimizer"): Range("call", names=INVERTIBLE),
  ("fedmax", "alpha"): _number(at_least=0),
  ("fedcm", "alpha"): _schedule(above=0, at_most=1),
  ("mofedsam", "alpha"): _schedule(above=0, at_most=1),
  ("scaffold_m", "alpha"): _schedule(above=0, at_most=1),
  ("fedexp", "epsilon"): _schedule(at_least=0),
  ("fedinit", "first_round"): _choice("initial", "none"),
  ("fednova", "beta_l"): _number(at_least=0, below=1),
  ("fednova", "mu"): _number(at_least=0),
  ("fedmuon", "beta"): _number(at_least=0, below=1),
  ("fedsnv", "beta1"): _number(above=0, below=1),
  ("fedsnv", "beta2"): _number(at_least=0),
  ("fedasgd", "epsilon"): _number(above=0, at_most=1),
  ("fedtm", "kappa"): _number(at_least=1),
  ("ghbm", "beta"): _FRACTION,
  ("local_ghbm", "beta"): _FRACTION,
  ("fedhbm", "beta"): _FRACTION,
  ("fedglomo", "beta"): _schedule(above=0, at_most=1),
}


def range_of(algorithm: str, name: str) -> Range | None:
  """The range of an algorithm's hyperparameter; None for a builder of the user's own, which checks itself."""
  if algorithm not in ALGORITHMS and algorithm not in REFERENCE_LINES:
    return None
  return OWN.get((algorithm, name)) or RANGES[name]


def check(algorithm: str, name: str, value: object) -> None:
  """Raises ValueError for a value that the builder would refuse, as far as the literals above tell.

  Texts such as `step(0.1, every=100)` and `sgdm(0.9)` are checked by name; their arguments are not, nor
  how several hyperparameters fit together. The builder checks these.
  """
  found = range_of(algorithm, name)
  if found is None or (value is None and found.optional):
    return
  if found.kind == "choice":
    validation.one_of(name, value, found.names)
  elif found.kind == "boolean":
    validation.boolean(name, value)
  elif found.kind == "call":
    if isinstance(value, str):
      literal = "a list of (rounds, eta, beta, nu)" if name == "stages" else ""
      _check_call(name, value, found.names, literal=literal)
  elif isinstance(value, str) and found.schedule:
    _check_call(name, value, SCHEDULES, **SCHEDULE_WORDS)
  elif found.kind == "whole":
    validation.integer(name, value, at_least=int(found.bounds["at_least"]))
  else:
    validation.number(name, value, **found.bounds)


# How errors name what a scheduled hyperparameter takes.
SCHEDULE_WORDS = {"literal": "a number", "call": "a schedule:"}


def _check_call(name: str, text: str, known: tuple[str, ...], **words: str) -> None:
  call_syntax.evaluate(name, text, dict.fromkeys(known, _anything), **words)


def _anything(*arguments: object, **keywords: object) -> None:
  """Stands for a function whose arguments the builder checks."""
