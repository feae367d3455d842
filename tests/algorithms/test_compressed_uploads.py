"""Compressed uploads: agreement with the oracle, which gets the library's own quantiser Q or none."""

import numpy as np
import pytest
import tensorflow as tf

from tests.helpers import harness
from tests.oracle import ORACLES
from tff_momentum import algorithms
from tff_momentum.client import Client, LocalWork
from tff_momentum.transforms import compression

LR = dict(client_learning_rate=0.1)
EXAMPLES = dict(client_weighting="num_examples")
WORK = [dict(epochs=2), dict(steps=3, weight_decay=0.1)]
LM, GLM = dict(beta_l=0.8), dict(beta=0.7, beta_l=0.8)

# Case: name, shared hyperparameters, bits.
CASES = {
  "fedpaq": ("fedpaq", dict(server_learning_rate=0.7), 4),
  "fedpaq, by examples": ("fedpaq", EXAMPLES, 2),
  "fedpaq_lm": ("fedpaq_lm", LM, 8),
  "fedpaq_glm": ("fedpaq_glm", dict(server_learning_rate=0.7, **GLM), 8),
  "fedlomo": ("fedlomo", {}, 32),
  "fedlomo, batch": ("fedlomo", dict(first_gradient="batch", **EXAMPLES), 4),
  "fedglomo, batch": ("fedglomo", dict(beta=0.3, first_gradient="batch"), 32),
  "fedglomo": ("fedglomo", dict(beta=0.3), 4),
  "fedglomo, by examples": ("fedglomo", dict(beta=0.3, **EXAMPLES), 2),
  "fedcomgate": ("fedcomgate", dict(server_learning_rate=0.7), 4),
}


def build(name, **hyperparameters):
  return algorithms.builder(name)(**LR, **hyperparameters)


def run(name, cohorts=harness.COHORTS, work=WORK[0], **hyperparameters):
  return harness.run_product(build(name, **hyperparameters), cohorts, **work)


def products_q(bits):
  """The library's Q for the oracle: the same seeds, with messages numbered by tensor."""

  def quantise(flat, t, i, message):
    seed = Client(
      harness.softmax_model(), LocalWork(), None, tf.constant(harness.client_seed(t, i)), t
    ).seed(0)
    parts, start = [], 0
    shapes = [w.shape for w in harness.initial_weights()]
    for number, shape in enumerate(shapes, message * len(shapes)):
      part = flat[start : start + int(np.prod(shape))].reshape(shape)
      v = tf.constant(part, tf.float32)
      u = compression.uniforms(v, seed, number)
      parts.append(compression.qsgd_round(v, u, bits))
      start += part.size
    return harness.flatten(parts)

  return None if bits >= 32 else quantise


@pytest.mark.parametrize("case", CASES)
def test_agrees_with_the_oracle_client_states_included(case):
  name, shared, bits = CASES[case]
  work = WORK[list(CASES).index(case) % 2]
  ours = run(name, work=work, bits=bits, **shared)
  expected = ORACLES[name](
    harness.oracle_problem(**work), harness.COHORTS, **LR, **shared, quantise=products_q(bits)
  )
  harness.assert_same_models(ours.x, expected.x)
  for letter in {"u", "x_minus"} & expected.server.keys():
    actual = harness.flatten(getattr(ours.states[-1].server, letter))
    np.testing.assert_allclose(actual, expected.server[letter], rtol=1e-5, atol=1e-5)
  for i, state in expected.clients.items():
    np.testing.assert_allclose(harness.flatten(ours.clients[i]), state, rtol=1e-5, atol=1e-5)


def test_fedglomo_counts_a_first_round_in_which_nobody_had_data_as_none():
  cohorts = [[4], [0, 1, 3], [2, 3, 4]]
  expected = ORACLES["fedglomo"](harness.oracle_problem(epochs=2), cohorts, beta=0.3, **LR)
  harness.assert_same_models(run("fedglomo", cohorts, beta=0.3, bits=32).x, expected.x)


def test_without_compression_fedpaq_is_fedavg():
  for name, extra in (("", {}), ("_lm", LM), ("_glm", GLM)):
    ours = run(f"fedpaq{name}", harness.COHORTS[:2], bits=32, **extra).x
    plain = run(f"fedavg{name}", harness.COHORTS[:2], **extra).x
    np.testing.assert_array_equal(ours, plain)


def test_fedlomo_with_one_batch_per_client_is_fedavg():
  cohorts, work = [[2], [2, 4]], dict(epochs=3)  # client 2 has one example, client 4 none
  ours = run("fedlomo", cohorts, work, bits=32).x
  harness.assert_same_models(ours, run("fedavg", cohorts, work).x)


def test_fedglomo_is_fedlomo_at_beta_one_and_on_a_constant_cohort():
  plain = run("fedlomo", bits=32).x
  harness.assert_same_models(run("fedglomo", beta=1.0, bits=32).x, plain)
  constant = [[0, 2, 3]] * 3
  plain = run("fedlomo", constant, bits=32).x
  harness.assert_same_models(run("fedglomo", constant, beta=0.3, bits=32).x, plain)


def test_bytes_are_as_documented():
  model, tensors = 16, 2

  def types(name, bits):
    return run(name, [], bits=bits).process

  glomo, gate = types("fedglomo", 4), types("fedcomgate", 4)
  assert glomo.bytes_down(0) == 2 * model * 4
  assert glomo.bytes_up(0) == 2 * (model * 4 // 8 + 4 * tensors)
  assert gate.bytes_down(0) == 2 * model * 4
  assert gate.bytes_up(0) == model * 4 // 8 + 4 * tensors + 4  # and K_i


BAD = [
  ("fedpaq", dict(bits=1), "bits must be"),
  ("fedpaq", dict(bits=4.0), "bits must be"),
  ("fedpaq_lm", dict(beta_l=1.0), "beta_l must be"),
  ("fedpaq_glm", dict(beta=-0.1), "beta must be"),
  ("fedlomo", dict(first_gradient="half"), "first_gradient must be"),
  ("fedlomo", dict(client_weighting="size"), "client_weighting must be"),
  ("fedglomo", dict(beta=0.0), "beta must be"),
  ("fedglomo", dict(beta=1.5), "beta must be"),
  ("fedglomo", dict(first_gradient=None), "first_gradient must be"),
  ("fedglomo", dict(bits="4"), "bits must be"),
]


@pytest.mark.parametrize(("name", "hyperparameters", "message"), BAD, ids=str)
def test_a_bad_hyperparameter_is_refused(name, hyperparameters, message):
  with pytest.raises(ValueError, match=message):
    build(name, **hyperparameters)
