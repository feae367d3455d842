"""The algorithms: one builder each, a keyword argument for each hyperparameter.

    tff_momentum.algorithms.scaffold(client_learning_rate=0.1, num_clients=100)

A builder has the name of its file where the file holds just one; the name then means the builder, as here.
A new algorithm is one file, one line here, and one line in `tff_momentum.registry`.
"""

from collections.abc import Callable

from tff_momentum.algorithm import Algorithm, named
from tff_momentum.algorithms.adabest import adabest
from tff_momentum.algorithms.adaptive import fedadagrad, fedyogi
from tff_momentum.algorithms.autofedgm import autofedavg, autofedgm, autofedgm_staged
from tff_momentum.algorithms.fedadam import fedadam, fedrmsprop
from tff_momentum.algorithms.fedadc import fedadc
from tff_momentum.algorithms.fedavg import fedavg, fedprox
from tff_momentum.algorithms.fedavg_lm import fedavg_glm, fedavg_lm
from tff_momentum.algorithms.fedcm import fedcm
from tff_momentum.algorithms.fedcomgate import fedcomgate
from tff_momentum.algorithms.feddyn import feddyn
from tff_momentum.algorithms.fedgbo import fedgbo, mfl
from tff_momentum.algorithms.fedglomo import fedglomo
from tff_momentum.algorithms.fedgm import fedavgm, fedgm, fednag
from tff_momentum.algorithms.fedgm_maps import fedasgd, fedpid, fedsnv, fedtm
from tff_momentum.algorithms.fedgm_stages import fedgm_staged
from tff_momentum.algorithms.fedhbm import fedhbm
from tff_momentum.algorithms.fedlomo import fedlomo
from tff_momentum.algorithms.fedmax import fedmax
from tff_momentum.algorithms.fedpaq import fedpaq, fedpaq_glm, fedpaq_lm
from tff_momentum.algorithms.fedsgd import fedsgd
from tff_momentum.algorithms.ghbm import ghbm
from tff_momentum.algorithms.local_ghbm import local_ghbm
from tff_momentum.algorithms.mime import mime, mime_mvr
from tff_momentum.algorithms.mimelite import mimelite, mimexlite
from tff_momentum.algorithms.scaffold import scaffold
from tff_momentum.registry import ALGORITHMS

__all__ = ["ALGORITHMS", "builder", *ALGORITHMS]

# Inside their files builders may build on one another; the name is that of the one asked for.
globals().update((name, named(globals()[name])) for name in ALGORITHMS)


def builder(name: str) -> Callable[..., Algorithm]:
  """The function that builds the algorithm of this name."""
  return globals()[name]
