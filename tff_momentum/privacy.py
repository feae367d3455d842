"""The (ε, δ) that a run with differential privacy has spent, computed by dp-accounting.

    >>> from tff_momentum.aggregator_options import parse
    >>> dp = parse("dp(noise_multiplier=1.0, clip=0.5, delta=1e-5)")
    >>> spent = PrivacySpent(dp, num_clients=1000, clients_per_round=10)
    >>> round(spent.epsilon(100), 2)
    1.21

A release is one noised sum of uploads; an algorithm with two exchanges has two in a round. The accounting is
for one client (all its data) as the unit of privacy, by Rényi differential privacy.

| sampling   | the cohort of a round counts as                             | neighbouring data sets     |
|------------|-------------------------------------------------------------|----------------------------|
| poisson    | every client takes part with probability S/N, independently | one client more or less    |
| fixed_size | S of N clients, drawn without replacement: what run.py does | another client in its place |
| none       | chosen in any way: no gain from sampling                    | one client more or less    |

`poisson` is what most papers report; it is an approximation where cohorts have a fixed size. Replacing a
client changes a sum by up to twice the clipping norm, so `fixed_size` gives a larger ε.
"""

import functools

import numpy as np

from tff_momentum.aggregator_options import PrivateMean


def default_delta(num_clients: int) -> float:
  """N^(−1.1), to two digits, the usual choice: smaller than one over the number of clients."""
  return float(f"{max(2, num_clients) ** -1.1:.2g}")


class PrivacySpent:
  """Counts the privacy that the rounds of a run spend.

  Attributes:
    delta: δ.
  """

  def __init__(
    self,
    dp: PrivateMean,
    *,
    num_clients: int,
    clients_per_round: int,
    releases: int = 1,
    first_releases: int = 0,
  ):
    """Computes nothing yet.

    Args:
      dp: the noise, and how sampling counts.
      num_clients: N.
      clients_per_round: S, the largest number of clients that a round selects.
      releases: the number of noised sums in every round.
      first_releases: the number of further ones in the first round.
    """
    self._dp, self._population, self._cohort = dp, num_clients, clients_per_round
    self._releases, self._first = releases, first_releases
    self.delta = default_delta(num_clients) if dp.delta is None else dp.delta

  def epsilon(self, rounds: int) -> float:
    """ε after so many rounds; a round counts even if its cohort was empty."""
    from dp_accounting import rdp

    count = rounds * self._releases + (self._first if rounds else 0)
    if not count:
      return 0.0
    orders, one = self._one_release
    return float(rdp.compute_epsilon(orders, count * one, self.delta)[0])

  @functools.cached_property
  def _one_release(self) -> tuple[np.ndarray, np.ndarray]:
    """The orders of the Rényi divergence, and its values for one release: releases add up."""
    import dp_accounting
    from dp_accounting import rdp

    noise = self._dp.noise_multiplier
    relation = dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE
    event: dp_accounting.DpEvent = dp_accounting.GaussianDpEvent(noise)
    if self._dp.sampling == "poisson":
      event = dp_accounting.PoissonSampledDpEvent(self._cohort / self._population, event)
    elif self._dp.sampling == "fixed_size":
      relation = dp_accounting.NeighboringRelation.REPLACE_ONE
      event = dp_accounting.SampledWithoutReplacementDpEvent(
        self._population, self._cohort, dp_accounting.GaussianDpEvent(noise / 2)
      )
    accountant = rdp.RdpAccountant(neighboring_relation=relation)
    accountant.compose(event)
    return accountant.orders, accountant.rdp
