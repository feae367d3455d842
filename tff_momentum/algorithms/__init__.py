"""The algorithms: one builder each, with one keyword argument for each hyperparameter.

    >>> import tff_momentum as tfm
    >>> tfm.algorithms.scaffold(client_learning_rate=0.1, num_clients=100).name
    'scaffold'

Where a file holds one builder, builder and file share a name; the name then refers to the builder, as above.
A new algorithm is one file, its import and its name below, and one record in `tff_momentum.registry`.
"""

from collections.abc import Callable, Mapping
from typing import Any

from tff_momentum import user_code
from tff_momentum.algorithm import Algorithm
from tff_momentum.algorithms.adabest import adabest
from tff_momentum.algorithms.autofedgm import autofedavg, autofedgm, autofedgm_staged
from tff_momentum.algorithms.diloco import diloco
from tff_momentum.algorithms.fedacg import fedacg
from tff_momentum.algorithms.fedadagrad import fedadagrad
from tff_momentum.algorithms.fedadam import fedadam, fedrmsprop
from tff_momentum.algorithms.fedadamw import fedadamw
from tff_momentum.algorithms.fedadc import fedadc
from tff_momentum.algorithms.fedasgd import fedasgd
from tff_momentum.algorithms.fedavg import fedavg, fedprox
from tff_momentum.algorithms.fedavg_lm import fedavg_glm, fedavg_lm
from tff_momentum.algorithms.fedavgm import fedavgm
from tff_momentum.algorithms.fedcm import fedcm
from tff_momentum.algorithms.fedcomgate import fedcomgate
from tff_momentum.algorithms.feddyn import feddyn
from tff_momentum.algorithms.fedexp import fedexp
from tff_momentum.algorithms.fedgbo import fedgbo
from tff_momentum.algorithms.fedglomo import fedglomo
from tff_momentum.algorithms.fedgm import fedgm, fednag
from tff_momentum.algorithms.fedgm_staged import fedgm_staged
from tff_momentum.algorithms.fedhbm import fedhbm
from tff_momentum.algorithms.fedinit import fedinit
from tff_momentum.algorithms.fedlion import fedlion
from tff_momentum.algorithms.fedlomo import fedlomo
from tff_momentum.algorithms.fedmax import fedmax
from tff_momentum.algorithms.fedmuon import fedmuon
from tff_momentum.algorithms.fednova import fednova
from tff_momentum.algorithms.fedpaq import fedpaq, fedpaq_glm, fedpaq_lm
from tff_momentum.algorithms.fedpid import fedpid
from tff_momentum.algorithms.fedsam import fedsam
from tff_momentum.algorithms.fedsgd import fedsgd
from tff_momentum.algorithms.fedsnv import fedsnv
from tff_momentum.algorithms.fedspeed import fedspeed
from tff_momentum.algorithms.fedtm import fedtm
from tff_momentum.algorithms.fedyogi import fedyogi
from tff_momentum.algorithms.ghbm import ghbm
from tff_momentum.algorithms.local_ghbm import local_ghbm
from tff_momentum.algorithms.mfl import mfl
from tff_momentum.algorithms.mime import mime
from tff_momentum.algorithms.mime_mvr import mime_mvr
from tff_momentum.algorithms.mimelite import mimelite, mimexlite
from tff_momentum.algorithms.mofedsam import mofedsam
from tff_momentum.algorithms.scaffold import scaffold
from tff_momentum.algorithms.scaffold_m import scaffold_m
from tff_momentum.reference_lines import centralised, local_only
from tff_momentum.registry import ALGORITHMS

__all__ = [
  "ALGORITHMS", "BUILDERS", "REFERENCE_LINES", "adabest", "autofedavg", "autofedgm", "autofedgm_staged",
  "build", "builder", "diloco", "fedacg", "fedadagrad", "fedadam", "fedadamw", "fedadc", "fedasgd",
  "fedavg", "fedavg_glm", "fedavg_lm", "fedavgm", "fedcm", "fedcomgate", "feddyn", "fedexp",
  "fedgbo", "fedglomo", "fedgm", "fedgm_staged", "fedhbm", "fedinit", "fedlion", "fedlomo",
  "fedmax", "fedmuon", "fednag", "fednova", "fedpaq", "fedpaq_glm", "fedpaq_lm", "fedpid",
  "fedprox", "fedrmsprop", "fedsam", "fedsgd", "fedsnv", "fedspeed", "fedtm", "fedyogi", "ghbm",
  "local_ghbm", "mfl", "mime", "mime_mvr", "mimelite", "mimexlite", "mofedsam", "scaffold",
  "scaffold_m",
]  # fmt: skip

BUILDERS: dict[str, Callable[..., Algorithm]] = {
  "fedsgd": fedsgd, "fedavg": fedavg, "fedprox": fedprox, "fedmax": fedmax,
  "fedavg_lm": fedavg_lm, "fedavg_glm": fedavg_glm, "fedavgm": fedavgm, "fedadagrad": fedadagrad,
  "fedadam": fedadam, "fedyogi": fedyogi, "fedrmsprop": fedrmsprop, "fedgm": fedgm,
  "fedgm_staged": fedgm_staged, "fednag": fednag, "fedsnv": fedsnv, "fedpid": fedpid,
  "fedasgd": fedasgd, "fedtm": fedtm, "mime": mime, "mimelite": mimelite, "mimexlite": mimexlite,
  "mime_mvr": mime_mvr, "fedgbo": fedgbo, "mfl": mfl, "fedcm": fedcm, "fedadc": fedadc,
  "ghbm": ghbm, "scaffold": scaffold, "feddyn": feddyn, "adabest": adabest,
  "local_ghbm": local_ghbm, "fedhbm": fedhbm, "fedcomgate": fedcomgate, "fedpaq": fedpaq,
  "fedpaq_lm": fedpaq_lm, "fedpaq_glm": fedpaq_glm, "fedlomo": fedlomo, "fedglomo": fedglomo,
  "autofedavg": autofedavg, "autofedgm": autofedgm, "autofedgm_staged": autofedgm_staged,
  "fedacg": fedacg, "fednova": fednova, "fedexp": fedexp, "fedinit": fedinit, "fedsam": fedsam,
  "mofedsam": mofedsam, "fedlion": fedlion, "fedadamw": fedadamw, "fedmuon": fedmuon,
  "scaffold_m": scaffold_m, "fedspeed": fedspeed, "diloco": diloco,
}  # fmt: skip

REFERENCE_LINES: dict[str, Callable[..., Algorithm]] = {
  "centralised": centralised,
  "local_only": local_only,
}


def builder(name: str) -> Callable[..., Algorithm]:
  """Returns the builder of the algorithm with this name.

  Args:
    name: a key of `ALGORITHMS` or `REFERENCE_LINES`, or `package.module:builder` for one of the user's own.

  Raises:
    KeyError: no algorithm has this name.
    tff_momentum.user_code.UserCodeError: the user's builder cannot be found.
  """
  if user_code.is_user_code(name):
    return user_code.find(name)
  return REFERENCE_LINES.get(name) or BUILDERS[name]


def build(name: str, arguments: Mapping[str, Any]) -> Algorithm:
  """Builds the algorithm with this name.

  Args:
    name: as for `builder`.
    arguments: the builder's keyword arguments.

  Raises:
    ValueError: the builder refuses a value.
    tff_momentum.user_code.UserCodeError: the user's builder fails, or returns no `Algorithm`.
  """
  if user_code.is_user_code(name):
    return user_code.call(name, arguments, Algorithm, "a tff_momentum.Algorithm")
  return builder(name)(**arguments)
