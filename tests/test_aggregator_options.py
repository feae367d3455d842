"""The texts of aggregators, and the privacy that a run spends against dp-accounting called by hand."""

import dp_accounting
import pytest
from dp_accounting import rdp

from tff_momentum import aggregator_options
from tff_momentum.aggregator_options import ClippedMean, PrivateMean, RobustMean
from tff_momentum.privacy import PrivacySpent, default_delta

GAUSSIAN = dp_accounting.GaussianDpEvent
REPLACE = dp_accounting.NeighboringRelation.REPLACE_ONE


def test_texts():
  parse = aggregator_options.parse
  assert parse("dp(noise_multiplier=1, clip=0.5)") == PrivateMean(1, 0.5)
  assert parse("dp(0.3, 2.0, delta=1e-5, sampling='fixed_size')") == PrivateMean(
    0.3, 2.0, 1e-5, "fixed_size"
  )
  assert parse("clip(1.5)") == ClippedMean(1.5)
  assert parse("robust") == parse("robust()") == RobustMean(True, True)


@pytest.mark.parametrize(
  ("text", "said"),
  [
    ("3", "aggregator must be one of"),
    ("", "aggregator must be"),
    ("mean()", "aggregator must be one of"),
    ("dp:noise_multiplier=1,clip=1", "aggregator must be one of dp"),
    ("dp(noise_multiplier=1)", "has wrong arguments"),
    (
      "dp(noise_multiplier=-1, clip=1)",
      "noise_multiplier must be a finite number above 0; found -1",
    ),
    ("dp(noise_multiplier=1, clip=0)", "clip must be"),
    ("dp(noise_multiplier=1, clip=1, delta=1)", "delta must be"),
    ("dp(noise_multiplier=1, clip=1, sampling='all')", "sampling must be one of"),
    ("clip('a')", "norm must be"),
    ("robust(zeroing=1)", "zeroing must be True or False"),
    ("robust(False, False)", "zeroing or clipping"),
  ],
)
def test_wrong_texts_are_one_sentence(text, said):
  with pytest.raises(ValueError, match=said.replace("(", r"\(")) as caught:
    aggregator_options.parse(text)
  assert "\n" not in str(caught.value)


def by_hand(event, count, delta, **relation):
  accountant = rdp.RdpAccountant(**relation)
  accountant.compose(event, count)
  return accountant.get_epsilon(delta)


@pytest.mark.parametrize(
  ("sampling", "event", "relation"),
  [
    ("poisson", dp_accounting.PoissonSampledDpEvent(0.05, GAUSSIAN(0.8)), {}),
    (
      "fixed_size",
      dp_accounting.SampledWithoutReplacementDpEvent(200, 10, GAUSSIAN(0.4)),
      {"neighboring_relation": REPLACE},
    ),
    ("none", GAUSSIAN(0.8), {}),
  ],
)
def test_epsilon_is_that_of_dp_accounting_called_by_hand(sampling, event, relation):
  dp = PrivateMean(0.8, 0.5, 1e-4, sampling)
  once = PrivacySpent(dp, num_clients=200, clients_per_round=10)
  assert once.epsilon(0) == 0
  assert once.epsilon(1) == pytest.approx(by_hand(event, 1, 1e-4, **relation), rel=1e-9)
  assert once.epsilon(60) == pytest.approx(by_hand(event, 60, 1e-4, **relation), rel=1e-9)


def test_every_noised_sum_counts():
  """Two exchanges are two releases per round, and one that takes place once is one more."""
  event, dp = dp_accounting.PoissonSampledDpEvent(0.1, GAUSSIAN(1.0)), PrivateMean(1.0, 1.0)
  spent = PrivacySpent(dp, num_clients=100, clients_per_round=10, releases=2, first_releases=1)
  assert spent.delta == default_delta(100) == 0.0063
  assert spent.epsilon(7) == pytest.approx(by_hand(event, 15, 0.0063), rel=1e-9)
