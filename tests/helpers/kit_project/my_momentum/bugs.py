"""Copies of the algorithm with one bug each."""

import dataclasses

import numpy as np
import tensorflow as tf

import tff_momentum as tfm
from my_momentum.momentum import ServerState, momentum
from tff_momentum import trees


def wrong_sign(*, client_learning_rate):
  """The server adds the update."""
  return _changed(
    momentum(client_learning_rate=client_learning_rate),
    server_update=lambda state, delta, info: ServerState(trees.add(state.x, delta), delta),
  )


def changing_type(*, client_learning_rate):
  """The server's momentum becomes float64."""

  def server_update(state, delta, info):
    m = trees.map(lambda m, d: tf.cast(m + d, tf.float64), state.m, delta)
    return ServerState(trees.subtract(state.x, delta), m)

  return _changed(momentum(client_learning_rate=client_learning_rate), server_update=server_update)


def changing_client_type(*, client_learning_rate):
  """The client's state loses a tensor."""
  original = momentum(client_learning_rate=client_learning_rate)

  def client_update(client, x, last):
    update = original.exchanges[0].client_update(client, x, last)
    return update._replace(state=update.state[:1])

  return _changed(original, client_update=client_update)


def unseeded(*, client_learning_rate):
  """Clients add noise that no seed determines."""
  original = momentum(client_learning_rate=client_learning_rate)

  def client_update(client, x, last):
    update = original.exchanges[0].client_update(client, x, last)
    noisy = trees.map(lambda d: d + 1e-3 * tf.random.normal(d.shape), update.upload)
    return update._replace(upload=noisy)

  return _changed(original, client_update=client_update)


def drawn_at_build(*, client_learning_rate):
  """The initial momentum is drawn by NumPy, once for each build."""
  scale = np.random.default_rng().uniform(0.001, 0.002)
  original = momentum(client_learning_rate=client_learning_rate)
  return dataclasses.replace(
    original,
    init_server=lambda x: ServerState(x, trees.map(lambda w: scale * tf.ones_like(w), x)),
  )


def hidden_state(*, client_learning_rate):
  """The server's momentum is in a Python variable, which no checkpoint has."""
  kept = []

  def remember(delta):
    kept.append(delta)
    return np.mean(kept[-2:], axis=0).astype(np.float32)

  def server_update(state, delta, info):
    def smooth(d):
      return tf.ensure_shape(tf.numpy_function(remember, [d], tf.float32), d.shape)

    first, *rest = delta
    return ServerState(trees.subtract(state.x, (smooth(first), *rest)), state.m)

  return _changed(momentum(client_learning_rate=client_learning_rate), server_update=server_update)


def without_weights(*, client_learning_rate):
  """Every client counts the same."""
  return momentum(client_learning_rate=client_learning_rate, client_weighting="uniform")


def hides_nan(*, client_learning_rate):
  """Clients send signs, and a NaN becomes -1."""
  original = momentum(client_learning_rate=client_learning_rate)

  def client_update(client, x, last):
    upload = original.exchanges[0].client_update(client, x, last).upload
    signs = trees.map(lambda d: tf.where(d > 0, 0.01, -0.01), upload)
    return tfm.Update(upload=signs, state=last)

  return _changed(original, client_update=client_update)


def too_many_bytes(*, client_learning_rate):
  """The upload is said to have eight bytes for each weight."""
  return _changed(
    momentum(client_learning_rate=client_learning_rate),
    upload_bytes=lambda specs: sum(8 * spec.shape.num_elements() for spec in specs),
  )


def shuffled(*, client_learning_rate):
  """A local step shuffles the gradient, for which GPUs have no kernel."""

  def client_update(client, x, last):
    def step(y, grad):
      g, *rest = grad(y)
      g = tf.random.experimental.stateless_shuffle(g, [1, 2])
      return trees.map(lambda y, g: y - client_learning_rate * g, y, (g, *rest))

    return tfm.Update(upload=trees.subtract(x, client.steps(step, x)), state=last)

  return _changed(momentum(client_learning_rate=client_learning_rate), client_update=client_update)


def _changed(algorithm, **functions):
  (exchange,) = algorithm.exchanges
  return dataclasses.replace(algorithm, exchanges=(dataclasses.replace(exchange, **functions),))
