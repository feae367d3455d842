"""Who takes part in which round: a participation maps the round to the cohort's client numbers."""

from collections.abc import Callable

from tff_momentum import checks
from tff_momentum.simulation import seeds

Participation = Callable[[int], list[int]]


def uniform(num_clients: int, clients_per_round: int, seed: int) -> Participation:
  """Each cohort is drawn uniformly without replacement, independently of all others."""
  checks.integer("clients_per_round", clients_per_round, at_least=1)
  if clients_per_round > num_clients:
    raise ValueError(
      f"clients_per_round must be at most the number of clients, {num_clients}; found {clients_per_round}."
    )

  def cohort(round_number: int) -> list[int]:
    rng = seeds.generator(seed, seeds.COHORT, round_number)
    return rng.choice(num_clients, clients_per_round, replace=False).tolist()

  return cohort
