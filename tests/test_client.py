"""A client outside TFF: local steps, full gradients, and the parts that measurements use."""

import numpy as np
import pytest
import tensorflow as tf

from tests.helpers import harness
from tests.oracle.problem import G, batches, g
from tff_momentum import trees
from tff_momentum.client import Client, LocalWork

RATE, DECAY = 0.3, 0.02
WORK = [dict(epochs=2), dict(steps=5), dict(steps=2)]


def make(i=0, own_steps=None, **work):
  return Client(
    harness.softmax_model(),
    LocalWork(weight_decay=DECAY, **work),
    harness.client_dataset(i),
    seed=tf.constant([1, i]),
    round_number=tf.constant(0),
    own_steps=own_steps,
  )


def sgd(y, grad):
  return trees.map(lambda y, g: y - RATE * g, y, grad(y))


def start():
  return tuple(tf.constant(w) for w in harness.initial_weights())


@pytest.mark.parametrize("work", WORK, ids=str)
def test_step_batches_and_step_gradient_repeat_the_local_steps(work):
  """Steps taken by hand from the public parts end where `steps` ends."""
  client, y = make(**work), start()
  for k, batch in enumerate(client.step_batches()):
    y = sgd(y, lambda point, batch=batch, k=k: client.step_gradient(point, batch, tf.constant(k)))
  assert k + 1 == float(client.num_steps)
  expected = make(**work).steps(sgd, start())
  np.testing.assert_allclose(harness.flatten(y), harness.flatten(expected), rtol=1e-6)


def test_it_counts_what_it_has_and_what_it_did():
  client = make(epochs=2)
  assert (int(client.num_batches), float(client.num_steps)) == (3, 6)
  assert (client.tally, client.took_steps) == (None, False)
  client.full_gradient(start())
  assert (float(client.tally.examples), client.took_steps) == (7, False)
  client.steps(sgd, start())
  assert (float(client.tally.examples), client.took_steps) == (14, True)
  assert float(client.num_examples) == 7


def test_a_client_without_data_stays_where_it_is():
  client = make(4, steps=3)
  assert (float(client.num_steps), float(client.num_examples), int(client.num_batches)) == (0, 0, 0)
  np.testing.assert_array_equal(
    harness.flatten(client.steps(sgd, start())), harness.flatten(start())
  )


def test_a_number_of_steps_of_its_own_replaces_the_usual_one():
  assert float(make(own_steps=tf.constant(2), epochs=2, uneven=True).num_steps) == 2
  assert float(make(own_steps=tf.constant(0), epochs=2, uneven=True).num_steps) == 6


def test_seeds_differ_by_purpose():
  client = make()
  assert client.seed(0).numpy().tolist() == client.seed(0).numpy().tolist()
  assert client.seed(0).numpy().tolist() != client.seed(1).numpy().tolist()


@pytest.mark.parametrize("longest", [0.05, 0.3, 1e9])
def test_gradients_of_local_steps_are_clipped_before_weight_decay(longest):
  """As the oracle does; a full gradient is not clipped."""
  work = dict(epochs=2, weight_decay=DECAY, clip_norm=longest)
  client = Client(harness.softmax_model(), LocalWork(**work), harness.client_dataset(0),
                  seed=tf.constant([1, 0]), round_number=tf.constant(0))  # fmt: skip
  problem = harness.oracle_problem(**work)
  y = problem.x0
  for b in batches(problem, 0):
    y = y - RATE * g(problem, y, b)
  np.testing.assert_allclose(harness.flatten(client.steps(sgd, start())), y, rtol=1e-5, atol=1e-6)
  full = harness.flatten(client.full_gradient(start()))
  np.testing.assert_allclose(full, G(problem, 0, problem.x0), rtol=1e-5, atol=1e-6)
  with pytest.raises(ValueError, match="client_clip_norm must be"):
    LocalWork(clip_norm=0)
