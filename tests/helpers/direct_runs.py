"""Runs an algorithm's functions directly, without TFF, on the problem of `harness`.

Building a process takes seconds; this takes a fraction of one, so that many identities can be tested. Whole
processes are compared with the oracle as well.
"""

import functools
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from tests.helpers import harness, shared_runs
from tff_momentum import algorithms, trees
from tff_momentum.algorithm import Algorithm, RoundInfo
from tff_momentum.client import Client, LocalWork


class DirectRun(NamedTuple):
  """The flat model and the server state after each round, and the clients' last states."""

  x: list[np.ndarray]
  states: list
  clients: dict


@functools.cache
def run(name, **rest) -> DirectRun:
  """Runs the algorithm of this name; see `run_algorithm`."""
  known = {key: rest.pop(key) for key in ("work", "cohorts", "model") if key in rest}
  return run_algorithm(algorithms.builder(name)(**rest), **known)


def run_algorithm(
  algorithm: Algorithm,
  *,
  cohorts=harness.COHORTS,
  work=shared_runs.WORK,
  model=harness.softmax_model,
) -> DirectRun:
  """Runs an algorithm for one round per cohort; `work` is a tuple of pairs."""
  network = model()
  updates = [_client_update(algorithm, e, network, dict(work)) for e in algorithm.exchanges]
  x0 = tuple(map(tf.constant, network.initial_weights))
  state, found = algorithm.init_server(x0), DirectRun([], [], {})
  for t, cohort in enumerate(cohorts):
    present = [i for i in cohort if harness.SIZES[i]]
    if present:
      state = _round(algorithm, updates, state, tf.constant(t), present, x0, found.clients)
    found.states.append(state)
    found.x.append(harness.flatten(algorithm.model(state)))
  return found


def _client_update(algorithm, exchange, model, work):
  @functools.partial(tf.function, autograph=False)
  def update(message, state, data, seed, t):
    client = Client(algorithm.prepare_model(model), LocalWork(**work), data, seed, t)
    return tuple(exchange.client_update(client, message, state))

  return update


def _round(algorithm, updates, state, t, present, x0, clients):
  by_examples = algorithm.client_weighting == "num_examples"
  weights = [float(harness.SIZES[i]) if by_examples else 1.0 for i in present]
  for exchange, update in zip(algorithm.exchanges, updates, strict=True):
    message, uploads = exchange.message(state, t), []
    for i in present:
      seed = tf.constant(harness.client_seed(int(t), i))
      own = clients.get(i, algorithm.init_client(x0, seed))
      upload, clients[i] = update(message, own, harness.client_dataset(i), seed, t)
      uploads.append(upload)
    mean = trees.map(
      lambda *leaves: sum(w * leaf for w, leaf in zip(weights, leaves, strict=True)) / sum(weights),
      *uploads,
    )
    state = exchange.server_update(state, mean, RoundInfo(t, tf.constant(sum(weights))))
  return state
