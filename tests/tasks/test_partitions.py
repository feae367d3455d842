"""The splits: exact sizes, no example twice, the law's marginals, the same split for the same seed."""

import hashlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.data import partitions

LABELS = np.random.default_rng(0).permutation(np.repeat(np.arange(10), 120))


def assert_disjoint_and_complete(parts, total):
  together = np.concatenate(parts)
  assert len(together) == total
  np.testing.assert_array_equal(np.sort(together), np.arange(total))


@settings(deadline=None, max_examples=60)
@given(
  num_clients=st.integers(1, 300),
  alpha=st.sampled_from([1e-6, 0.01, 0.3, 1.0, 100.0, 1e6]),
  seed=st.integers(0, 2**31),
)
def test_dirichlet_gives_every_example_once_in_equal_sizes(num_clients, alpha, seed):
  parts = partitions.dirichlet(LABELS, num_clients, alpha, seed)
  assert_disjoint_and_complete(parts, len(LABELS))
  assert {len(part) for part in parts} <= {
    len(LABELS) // num_clients,
    -(-len(LABELS) // num_clients),
  }


@pytest.mark.parametrize("num_clients", [10, 13, 100, 1200])
def test_alpha_zero_gives_one_class_to_each_client(num_clients):
  parts = partitions.dirichlet(LABELS, num_clients, 0, seed=3)
  assert_disjoint_and_complete(parts, len(LABELS))
  assert all(len(np.unique(LABELS[part])) == 1 for part in parts)
  if num_clients % 10 == 0:
    assert {len(part) for part in parts} == {len(LABELS) // num_clients}


def test_alpha_zero_with_fewer_clients_than_classes_gives_as_few_classes_as_will_do():
  parts = partitions.dirichlet(LABELS, 5, 0, seed=3)
  assert_disjoint_and_complete(parts, len(LABELS))
  assert all(len(np.unique(LABELS[part])) == 2 for part in parts)


@pytest.mark.parametrize("alpha", [0.5, 2.0, 50.0])
def test_dirichlet_marginals_are_those_of_the_law(alpha):
  """Few examples from large pools, so that no class runs out and the law is exact.

  A share k/m with k ~ Binomial(m, q), q ~ Dir(αp) has the mean p and the variance
  p(1−p)·(1/m + (1 − 1/m)/(1 + α)).
  """
  rng = np.random.default_rng(1)
  labels = np.repeat([0, 1, 2], [100_000, 60_000, 40_000])
  prior = np.array([0.5, 0.3, 0.2])
  clients, m = 2000, 20
  parts = partitions.dirichlet(
    labels, clients, alpha, seed=int(rng.integers(99)), sizes=[m] * clients
  )
  shares = np.array([np.bincount(labels[part], minlength=3) for part in parts]) / m
  variance = prior * (1 - prior) * (1 / m + (1 - 1 / m) / (1 + alpha))
  np.testing.assert_array_less(abs(shares.mean(0) - prior), 4.5 * np.sqrt(variance / clients))
  fourth = ((shares - prior) ** 4).mean(0)
  error = np.sqrt((fourth - variance**2) / clients)
  np.testing.assert_array_less(abs(((shares - prior) ** 2).mean(0) - variance), 4.5 * error)


def test_golden_hashes_hold_on_every_machine():
  splits = {
    "dirichlet 0.3": partitions.dirichlet(LABELS, 30, 0.3, seed=7),
    "dirichlet 0": partitions.dirichlet(LABELS, 30, 0, seed=7),
    "classes 2": partitions.classes_per_client(LABELS, 50, 2, seed=7),
    "similarity 10": partitions.sorted_similarity(LABELS, 40, 10, seed=7),
    "pachinko": partitions.pachinko(LABELS, np.arange(10) // 2, 20, seed=7),
  }
  hashes = {
    name: hashlib.sha256(b"|".join(part.astype("<i8").tobytes() for part in parts)).hexdigest()[:16]
    for name, parts in splits.items()
  }
  assert hashes == GOLDEN


GOLDEN = {
  "dirichlet 0.3": "14563771ace26966",
  "dirichlet 0": "eb78c8d54eb4a997",
  "classes 2": "077478a21e08b9e6",
  "similarity 10": "8d2c953541ed4247",
  "pachinko": "34454623f0369847",
}


def test_seeds_give_different_splits():
  a, b = (np.concatenate(partitions.dirichlet(LABELS, 30, 0.3, seed=s)) for s in (1, 2))
  assert (a != b).any()


def test_at_most_two_classes_per_client_and_equal_sizes():
  parts = partitions.classes_per_client(LABELS, 50, 2, seed=0)
  assert_disjoint_and_complete(parts, len(LABELS))
  assert max(len(np.unique(LABELS[part])) for part in parts) == 2
  assert {len(part) for part in parts} == {24}


@pytest.mark.parametrize("similarity", [0, 10, 50, 100])
def test_similarity_is_the_share_of_iid_examples(similarity):
  parts = partitions.sorted_similarity(LABELS, 20, similarity, seed=0)
  assert_disjoint_and_complete(parts, len(LABELS))
  assert {len(part) for part in parts} == {60}
  # Sorted, a client of 60 among classes of 120 (less those shuffled) holds one or two classes.
  top = (
    np.mean([np.sort(np.bincount(LABELS[part], minlength=10))[-2:].sum() for part in parts]) / 60
  )
  iid_share = similarity / 100
  assert top >= (1 - iid_share) - 0.01
  assert top <= (1 - iid_share) + iid_share * 0.5 + 0.01


def test_pachinko_follows_the_tree():
  """With a tiny root concentration a client stays within one coarse class, spread over its leaves."""
  labels = np.tile(np.arange(20), 500)
  coarse = np.arange(20) // 5
  parts = partitions.pachinko(labels, coarse, 100, seed=0, root_alpha=1e-6, leaf_alpha=1e4)
  assert_disjoint_and_complete(parts, len(labels))
  histograms = [np.bincount(labels[part], minlength=20).reshape(4, 5) for part in parts[:20]]
  for histogram in histograms:
    coarse_counts = histogram.sum(1)
    assert coarse_counts.max() == 100
    assert histogram[coarse_counts.argmax()].min() >= 5


@pytest.mark.parametrize(
  ("call", "sentence"),
  [
    (
      lambda: partitions.dirichlet(LABELS, 0, 1, 0),
      "num_clients must be a whole number of at least 1",
    ),
    (lambda: partitions.dirichlet(LABELS, 1201, 1, 0), "num_clients must be at most the 1200"),
    (lambda: partitions.dirichlet(LABELS, 10, -1, 0), "alpha must be a finite number at least 0"),
    (lambda: partitions.sorted_similarity(LABELS, 10, 101, 0), "similarity must be"),
    (lambda: partitions.parse("dirichlet:x"), "partition must be iid, dirichlet:ALPHA"),
    (lambda: partitions.parse("dirichlet:-1"), "partition=dirichlet:ALPHA must be"),
    (lambda: partitions.parse("nothing"), "found 'nothing'"),
  ],
)
def test_wrong_values_are_refused_in_one_sentence(call, sentence):
  with pytest.raises(ValueError, match=sentence):
    call()


def test_parse_spells_the_splits():
  for text, direct in (
    ("dirichlet:0.3", partitions.dirichlet(LABELS, 9, 0.3, 5)),
    ("classes:2", partitions.classes_per_client(LABELS, 9, 2, 5)),
    ("similarity:10", partitions.sorted_similarity(LABELS, 9, 10, 5)),
    ("iid", partitions.iid(LABELS, 9, 5)),
  ):
    for a, b in zip(partitions.parse(text)(LABELS, 9, 5), direct, strict=True):
      np.testing.assert_array_equal(a, b)
