"""The base optimizers: I inverts U for any statistics, and each record follows its definition."""

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers import shared_runs
from tests.oracle.local_optimizers import newton_schulz
from tff_momentum import algorithms, optimizers

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
    old, s, t = s, ours.track(g, s), theirs.track(flat, t)
    moved = np.concatenate(ours.moving_step(g, old, s))
    np.testing.assert_allclose(moved, theirs.moving(flat, t), rtol=1e-5, atol=1e-6)
    flat_s, flat_t = ([np.zeros(0), *parts] for parts in (tf.nest.flatten(s), t.values()))
    np.testing.assert_allclose(np.concatenate(flat_s), np.concatenate(flat_t), rtol=1e-5)


NEWER = [
  "adamw(0.8, 0.9, decay=0.1, epsilon=0.01)",
  "lion(0.8, 0.9, decay=0.1)",
  "muon(0.8, decay=0.1, beta1=0.7, beta2=0.9, epsilon=0.01)",
]


@pytest.mark.parametrize("text", NEWER)
@pytest.mark.parametrize("moving", [False, True])
def test_newer_optimizers_follow_their_rules(text, moving):
  """Three steps on a matrix and a vector, by hand: with statistics held fixed for a step (U), or moving."""
  base, rng, rate = optimizers.optimizer(text), np.random.default_rng(0), 0.1
  x = (rng.normal(size=(3, 4)), rng.normal(size=4))
  y = tuple(tf.constant(w, tf.float32) for w in x)
  s, m, v = base.start(y), [0 * w for w in x], [np.ones_like(w) for w in x]
  for _ in range(3):
    g = tuple(rng.normal(size=w.shape) for w in x)
    ours = tuple(tf.constant(part, tf.float32) for part in g)
    new = base.track(ours, s)
    u = base.moving_step(ours, s, new) if moving else base.step(ours, s)
    y, s = base.move(y, u, rate), new
    for k, w in enumerate(x):
      if text.startswith("lion"):
        step, m[k] = np.sign(0.8 * m[k] + 0.2 * g[k]), 0.9 * m[k] + 0.1 * g[k]
      elif text.startswith("muon") and w.ndim == 2:
        m[k] = 0.8 * m[k] + 0.2 * g[k]
        step = np.sqrt(4 / 3) * newton_schulz(0.8 * m[k] + 0.2 * g[k])
      else:
        beta = 0.8 if text.startswith("adamw") else 0.7
        m[k], old, v[k] = beta * m[k] + (1 - beta) * g[k], v[k], 0.9 * v[k] + 0.1 * g[k] ** 2
        step = m[k] / (np.sqrt(v[k] if moving else old) + 0.01)
      x = (*x[:k], w - rate * (step + 0.1 * w), *x[k + 1 :])
  for mine, theirs in zip(y, x, strict=True):
    np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=1e-5)
  assert optimizers.optimizer(str(base)).text == base.text


@pytest.mark.parametrize("text", NEWER)
def test_fedgbo_refuses_optimizers_that_it_cannot_invert(text):
  with pytest.raises(ValueError, match="optimizer must be one whose steps give the gradient back"):
    algorithms.fedgbo(client_learning_rate=0.1, optimizer=text)


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
