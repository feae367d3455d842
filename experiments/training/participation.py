"""Builds a run's participation: which clients take part in which round, with how much work, and when."""

import functools
import math

import numpy as np
import tensorflow as tf

from experiments.cli.references import CENTRALISED
from experiments.cli.run_config import RunConfig
from experiments.cli.uneven_clients import BOUNDS
from experiments.training import pooled
from tasks.task import Task
from tff_momentum.runtime import ClientBatches, DataReference
from tff_momentum.simulation import clock, distributions, participation
from tff_momentum.simulation.participation import Participation


def build(config: RunConfig, task: Task) -> Participation:
  """The participation that a configuration describes."""
  if config.algo == CENTRALISED:
    return pooled.participation
  if config.uneven.asynchronous:
    return _asynchronous(config, task)
  return _synchronous(config, task)


def _synchronous(config: RunConfig, task: Task) -> Participation:
  uneven, wanted = config.uneven, config.clients_per_round
  selected = min(math.ceil(wanted * (uneven.over_selection or 1)), len(task.clients))
  pattern = _pattern(config, task, max(selected, wanted))
  steps = _local_steps(config)
  if steps is not None:
    pattern = participation.with_steps(pattern, steps, config.seed)
  if uneven.dropout_rate:
    pattern = participation.with_dropouts(pattern, uneven.dropout_rate, config.seed)
  if uneven.client_speed:
    enough = wanted if uneven.over_selection else None
    speeds = _speeds(config, task, uneven.client_speed)
    pattern = clock.synchronous(pattern, speeds, clients_per_round=enough, deadline=uneven.deadline)
  return pattern


def _pattern(config: RunConfig, task: Task, size: int) -> Participation:
  count, seed = len(task.clients), config.seed
  match config.uneven.participation:
    case "cyclic":
      return participation.cyclic(count, size, seed)
    case "same":
      return participation.same(count, size, seed)
    case "proportional":
      examples = [_num_batches(task, client, 1) for client in task.clients]
      return participation.proportional(examples, size, seed)
    case "availability":
      days = _availability(config, count)
      assert days is not None, "--participation=availability has a default availability"
      return participation.available(count, size, seed, days=days)
    case _:
      return participation.uniform(count, size, seed)


def _asynchronous(config: RunConfig, task: Task) -> Participation:
  uneven = config.uneven
  assert uneven.client_speed is not None, "asynchronous clients have a default speed"
  assert uneven.max_staleness is not None, "asynchronous clients have a default staleness"
  return clock.asynchronous(
    len(task.clients),
    config.clients_per_round,
    _speeds(config, task, uneven.client_speed),
    max_staleness=uneven.max_staleness,
    stale=uneven.stale or "drop",
    steps=_local_steps(config),
    think_time=_distribution("think_time", uneven.think_time),
    days=_availability(config, len(task.clients)),
    dropout_rate=uneven.dropout_rate or 0.0,
    seed=config.seed,
  )


def _distribution(name: str, text: str | None) -> distributions.Distribution | None:
  return distributions.parse(name, text, **BOUNDS[name]) if text else None


def _local_steps(config: RunConfig) -> distributions.Distribution | None:
  text = config.uneven.client_steps_law
  return distributions.parse_integers("client_steps_law", text) if text else None


def _availability(config: RunConfig, num_clients: int) -> participation.DailyAvailability | None:
  share = _distribution("availability", config.uneven.availability)
  if share is None or config.uneven.day is None:
    return None
  return participation.DailyAvailability(num_clients, config.uneven.day, share, config.seed)


def _speeds(config: RunConfig, task: Task, text: str) -> clock.ClientSpeeds:
  speed = distributions.parse("client_speed", text, **BOUNDS["client_speed"])

  @functools.cache
  def usual_steps(client: int) -> int:
    if config.client_steps_per_round:
      return config.client_steps_per_round
    batches = _num_batches(task, task.clients[client], config.client_batch_size)
    return batches * (config.client_epochs_per_round or 1)

  return clock.ClientSpeeds(len(task.clients), speed, usual_steps, config.seed)


def _num_batches(task: Task, client: str, batch_size: int) -> int:
  data = task.dataset(client, np.zeros(2, np.int32), batch_size)
  if isinstance(data, DataReference):
    data = data.resolve()
  if isinstance(data, ClientBatches):
    return data.cardinality()
  known = int(data.cardinality())  # negative if unknown
  return known if known >= 0 else int(data.reduce(tf.zeros([], tf.int64), lambda n, _: n + 1))
