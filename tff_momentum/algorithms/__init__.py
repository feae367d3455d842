"""The algorithms by name. Importing this imports nothing heavy; a builder's module is loaded when asked for.

    tff_momentum.algorithms.scaffold(client_learning_rate=0.1, num_clients=100)

A new algorithm is one builder in a file of its own and one line here.
"""

import importlib
from collections.abc import Callable
from typing import Any, NamedTuple


class Entry(NamedTuple):
  """Where an algorithm is written, where it comes from, and its rule in one line."""

  module: str
  paper: str
  rule: str


ALGORITHMS: dict[str, Entry] = {
  "fedavg": Entry("fedavg", "McMahan 2017", "x ← x − η E[Δ]"),
  "fedavgm": Entry("fedgm", "Hsu 2019", "m ← βm + E[Δ]; x ← x − ηm"),
  "fedgm": Entry("fedgm", "FedGM eq. 2", "d ← (1−β)E[Δ] + βd; x ← x − η((1−ν)E[Δ] + νd)"),
  "fedgm_staged": Entry("fedgm", "FedGM Alg. 3", "FedGM with (η, β, ν) by stages"),
  "mime": Entry("mime", "Mime Alg. 1", "y ← y − η_l U(g(y) − g(x) + c, s); s ← V(E[G(x)], s)"),
  "mimelite": Entry("mime", "Mime Alg. 1", "y ← y − η_l U(g(y), s); s ← V(E[G(x)], s)"),
  "ghbm": Entry("ghbm", "GHBM eq. 6", "y ← y − η_l g + β/(τK)(x − x₍τ₎)"),
  "scaffold": Entry("scaffold", "SCAFFOLD Alg. 1", "y ← y − η_l (g − c_i + c)"),
}


def builder(name: str) -> Callable[..., Any]:
  """The function that builds the algorithm of this name."""
  return getattr(importlib.import_module(f"{__name__}.{ALGORITHMS[name].module}"), name)


def __getattr__(name: str) -> Any:
  if name in ALGORITHMS:
    return builder(name)
  raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
  return [*globals(), *ALGORITHMS]
