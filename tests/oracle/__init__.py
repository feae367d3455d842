"""Float64 NumPy versions of every algorithm, written from the papers' pseudo-code.

They share no code with the library, so a test that compares the two compares two readings of the
paper. `ORACLES` maps each algorithm's name to its function.
"""

from collections.abc import Callable

from tests.oracle.adaptive import fedadagrad, fedadam, fedrmsprop, fedyogi
from tests.oracle.asynchronous import Arrive, Start, autofedavg, autofedgm, events_without_delay
from tests.oracle.compressed import (
  fedcomgate,
  fedglomo,
  fedlomo,
  fedpaq,
  fedpaq_glm,
  fedpaq_lm,
  qsgd,
)
from tests.oracle.general_momentum import (
  fedasgd,
  fedgm,
  fednag,
  fedpid,
  fedsnv,
  fedtm,
  stages_from,
)
from tests.oracle.local_optimizers import diloco, fedadamw, fedlion, fedmuon
from tests.oracle.newer import fedacg, fedexp, fedinit, fednova, scaffold_m
from tests.oracle.problem import Problem, Trace, least_squares
from tests.oracle.server_statistic import (
  fedadc,
  fedcm,
  fedgbo,
  ghbm,
  mfl,
  mime,
  mime_mvr,
  mimelite,
  mimexlite,
)
from tests.oracle.server_step import (
  fedavg,
  fedavg_glm,
  fedavg_lm,
  fedavgm,
  fedmax,
  fedprox,
  fedsgd,
  max_entropy_penalty,
)
from tests.oracle.sharpness import fedsam, fedspeed, mofedsam
from tests.oracle.stateful import adabest, feddyn, fedhbm, local_ghbm, scaffold

__all__ = [
  "ORACLES",
  "Arrive",
  "Problem",
  "Start",
  "Trace",
  "events_without_delay",
  "least_squares",
  "max_entropy_penalty",
  "qsgd",
  "stages_from",
]

ORACLES: dict[str, Callable[..., Trace]] = {
  "fedsgd": fedsgd,
  "fedavg": fedavg,
  "fedprox": fedprox,
  "fedmax": fedmax,
  "fedavg_lm": fedavg_lm,
  "fedavg_glm": fedavg_glm,
  "fedavgm": fedavgm,
  "fedadagrad": fedadagrad,
  "fedadam": fedadam,
  "fedyogi": fedyogi,
  "fedrmsprop": fedrmsprop,
  "fedgm": fedgm,
  "fednag": fednag,
  "fedsnv": fedsnv,
  "fedpid": fedpid,
  "fedasgd": fedasgd,
  "fedtm": fedtm,
  "mime": mime,
  "mimelite": mimelite,
  "mimexlite": mimexlite,
  "mime_mvr": mime_mvr,
  "fedgbo": fedgbo,
  "mfl": mfl,
  "fedcm": fedcm,
  "fedadc": fedadc,
  "ghbm": ghbm,
  "scaffold": scaffold,
  "feddyn": feddyn,
  "adabest": adabest,
  "local_ghbm": local_ghbm,
  "fedhbm": fedhbm,
  "fedcomgate": fedcomgate,
  "fedpaq": fedpaq,
  "fedpaq_lm": fedpaq_lm,
  "fedpaq_glm": fedpaq_glm,
  "fedlomo": fedlomo,
  "fedglomo": fedglomo,
  "autofedgm": autofedgm,
  "autofedavg": autofedavg,
  "fedacg": fedacg,
  "fednova": fednova,
  "fedexp": fedexp,
  "fedsam": fedsam,
  "mofedsam": mofedsam,
  "fedlion": fedlion,
  "fedadamw": fedadamw,
  "fedmuon": fedmuon,
  "scaffold_m": scaffold_m,
  "fedinit": fedinit,
  "fedspeed": fedspeed,
  "diloco": diloco,
}
