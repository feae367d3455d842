"""The base optimizers: I inverts U for any statistics, and each record follows its definition."""

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers import shared_runs
from tff_momentum import optimizers

numbers = st.floats(-10, 10)
decays = st.sampled_from([0.0, 0.3, 0.9, 0.99])
epsilons = st.sampled_from([1e-3, 1e-2, 1.0])
bases = st.one_of(
  st.just(optimizers.sgd()),
  st.builds(optimizers.sgdm, decays, dampened=st.booleans()),
  st.builds(optimizers.rmsprop, decays, epsilon=epsilons),
  st.builds(optimizers.adagrad, epsilon=epsilons),
  st.builds(optimizers.adam, decays, decays, epsilon=epsilons),
)


def statistics_of(base, m, v):
  """This optimizer's statistics with the given values for m and v."""
  start = base.start((tf.zeros([3]),))
  if start == ():
    return ()
  if isinstance(start, optimizers.Moments):
    return optimizers.Moments((tf.constant(m),), (tf.constant(v),))
  return (tf.constant(m if base.text.startswith("sgdm") else v),)


@settings(max_examples=200, deadline=None)
@given(bases, *[st.lists(numbers, min_size=3, max_size=3)] * 3)
def test_the_inverse_undoes_the_step(base, g, m, v):
  """In float64, up to rounding errors, which (D − βm)/(1−β) amplifies by up to 100 here."""
  g, m, v = (np.array(values, np.float64) for values in (g, m, np.abs(v)))
  s = statistics_of(base, m, v)
  (again,) = base.invert(base.step((tf.constant(g),), s), s)
  np.testing.assert_allclose(again, g, rtol=1e-13, atol=1e-12)


@pytest.mark.parametrize("text", shared_runs.BASES)
def test_a_record_follows_the_oracles(text):
  ours, theirs = optimizers.optimizer(text), shared_runs.BASES[text]
  rng = np.random.default_rng(0)
  x = (tf.zeros([2]), tf.zeros([3]))
  s, t = ours.start(x), theirs.start(np.zeros(5))
  for _ in range(4):
    flat = rng.normal(size=5)
    g = tuple(tf.constant(part, tf.float32) for part in (flat[:2], flat[2:]))
    for mine, their in ((ours.step, theirs.step), (ours.invert, theirs.inverse)):
      np.testing.assert_allclose(np.concatenate(mine(g, s)), their(flat, t), rtol=1e-5, atol=1e-6)
    s, t = ours.track(g, s), theirs.track(flat, t)
    moved = np.concatenate(ours.moving_step(g, s))
    np.testing.assert_allclose(moved, theirs.moving(flat, t), rtol=1e-5, atol=1e-6)
    flat_s, flat_t = ([np.zeros(0), *parts] for parts in (tf.nest.flatten(s), t.values()))
    np.testing.assert_allclose(np.concatenate(flat_s), np.concatenate(flat_t), rtol=1e-5)


@pytest.mark.parametrize("text", shared_runs.BASES)
def test_the_text_spells_the_optimizer_again(text):
  base = optimizers.optimizer(text)
  assert optimizers.optimizer(str(base)).text == base.text


@pytest.mark.parametrize(
  ("value", "reason"),
  [
    ("sgd(0.9)", "wrong arguments"),
    ("sgdm(1.0)", "beta must be .* below 1"),
    ("sgdm(-0.1)", "beta must be .* at least 0"),
    ("sgdm(nan)", "one of sgd"),
    ("adam(0.9, 1.5)", "beta2 must be"),
    ("adam(epsilon=0)", "epsilon must be .* above 0"),
    ("rmsprop(0.9, v0=-1)", "v0 must be"),
    ("adamm", "Did you mean adam"),
    ("mvr(0.1)", "one of sgd"),
    ("0.9", "one of sgd"),
    ("__import__('os')", "one of sgd"),
    pytest.param(0.9, "one of sgd", id="a number, not text"),
    (None, "one of sgd"),
  ],
)
def test_a_bad_optimizer_is_refused(value, reason):
  with pytest.raises(ValueError, match=reason):
    optimizers.optimizer(value)
