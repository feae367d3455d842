"""The aggregator of a run, and what differential privacy has spent."""

import dataclasses
import math
from collections.abc import Callable

import numpy as np
import tensorflow as tf

from experiments.cli.run_config import RunConfig
from tff_momentum import aggregator_options
from tff_momentum.aggregator_options import PrivateMean
from tff_momentum.privacy import PrivacySpent
from tff_momentum.processes import aggregators
from tff_momentum.processes.exchange import ExchangeTypes, specs
from tff_momentum.processes.process import FederatedProcess
from tff_momentum.simulation import seeds

_SAMPLING_WORDS = {
  "poisson": "every client taking part with probability {share:.3g} (Poisson sampling)",
  "fixed_size": "{cohort} of {clients} clients drawn without replacement",
  "none": "cohorts chosen in any way",
}


def aggregator(config: RunConfig) -> Callable[[int], aggregators.Factory] | None:
  """The aggregator of each exchange; None for the mean."""
  if config.aggregator is None:
    return None
  found, clients = aggregator_options.parse(config.aggregator), config.clients_per_round
  return lambda number: aggregators.factory(found, clients, _noise_seed(config.seed, number))


def spent(config: RunConfig, process: FederatedProcess) -> PrivacySpent | None:
  """What the rounds of a run spend; None without differential privacy."""
  dp = _private(config)
  if dp is None:
    return None
  return PrivacySpent(
    dp,
    num_clients=config.num_clients,
    clients_per_round=_selected(config),
    releases=_releases(process.exchanges),
    first_releases=_releases(process.first_round_exchanges),
  )


def words(config: RunConfig, privacy: PrivacySpent, rounds: int) -> str:
  """What the run has spent, and under which assumption, in one sentence."""
  dp = _private(config)
  assert dp is not None, "only a private run has spent privacy"
  how = _SAMPLING_WORDS[dp.sampling].format(
    share=_selected(config) / config.num_clients,
    cohort=_selected(config),
    clients=config.num_clients,
  )
  epsilon = f"{privacy.epsilon(rounds):.4g}"
  return f"Privacy of a client: ε = {epsilon} at δ = {privacy.delta:.2g} after {rounds} rounds, with {how}."


def _private(config: RunConfig) -> PrivateMean | None:
  """The private mean, with no gain from sampling if cohorts are not drawn uniformly."""
  found = aggregator_options.parse(config.aggregator) if config.aggregator else None
  if not isinstance(found, PrivateMean):
    return None
  if config.uneven.participation not in (None, "uniform"):
    return dataclasses.replace(found, sampling="none")
  return found


def _selected(config: RunConfig) -> int:
  """The number of clients that a round selects; some of them may not report."""
  wanted = math.ceil(config.clients_per_round * (config.uneven.over_selection or 1))
  return min(wanted, config.num_clients)


def _releases(exchanges: tuple[ExchangeTypes, ...]) -> int:
  """The number of exchanges in which clients upload something."""
  return sum(bool(tf.nest.flatten(specs(exchange.upload))) for exchange in exchanges)


def _noise_seed(seed: int, exchange: int) -> np.ndarray:
  return seeds.client_seed(seed, seeds.NOISE, 0, f"exchange {exchange}")
