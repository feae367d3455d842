"""Who takes part in a run, from its configuration: the pattern, drop-outs, uneven work, and the clock."""

import functools
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from experiments.cli.uneven_clients import LAWS
from tasks.task import Task
from tff_momentum.runtime import DataReference
from tff_momentum.simulation import clock, distributions, participation
from tff_momentum.simulation.participation import Participation


def build(config: Mapping[str, Any], task: Task) -> Participation:
  """The participation that a resolved configuration describes."""
  return _arrivals(config, task) if config["async"] else _rounds(config, task)


def _rounds(config: Mapping[str, Any], task: Task) -> Participation:
  seed, wanted = config["seed"], config["clients_per_round"]
  selected = min(math.ceil(wanted * (config["over_selection"] or 1)), len(task.clients))
  pattern = _pattern(config, task, max(selected, wanted))
  if config["client_steps_law"]:
    law = distributions.parse_integers("client_steps_law", config["client_steps_law"])
    pattern = participation.with_steps(pattern, law, seed)
  if config["dropout_rate"]:
    pattern = participation.with_dropouts(pattern, config["dropout_rate"], seed)
  if config["client_speed"]:
    enough = wanted if config["over_selection"] else None
    pattern = clock.synchronous(
      pattern, _pace(config, task), clients_per_round=enough, deadline=config["deadline"]
    )
  return pattern


def _pattern(config: Mapping[str, Any], task: Task, size: int) -> Participation:
  count, seed = len(task.clients), config["seed"]
  match config["participation"]:
    case "cyclic":
      return participation.cyclic(count, size, seed)
    case "same":
      return participation.same(count, size, seed)
    case "proportional":
      examples = [_count(task, client, 1) for client in task.clients]
      return participation.proportional(examples, size, seed)
    case "availability":
      return participation.available(count, size, seed, days=_days(config, count))
    case _:
      return participation.uniform(count, size, seed)


def _arrivals(config: Mapping[str, Any], task: Task) -> Participation:
  steps = config["client_steps_law"]
  return clock.asynchronous(
    len(task.clients),
    config["clients_per_round"],
    _pace(config, task),
    max_staleness=config["max_staleness"],
    stale=config["stale"],
    steps=distributions.parse_integers("client_steps_law", steps) if steps else None,
    think_time=_law(config, "think_time"),
    days=_days(config, len(task.clients)) if config["availability"] else None,
    dropout_rate=config["dropout_rate"] or 0.0,
    seed=config["seed"],
  )


def _law(config: Mapping[str, Any], name: str) -> distributions.Distribution | None:
  return distributions.parse(name, config[name], **LAWS[name]) if config[name] else None


def _days(config: Mapping[str, Any], num_clients: int) -> participation.DailyAvailability:
  share = distributions.parse("availability", config["availability"], **LAWS["availability"])
  return participation.DailyAvailability(num_clients, config["day"], share, config["seed"])


def _pace(config: Mapping[str, Any], task: Task) -> clock.ClientSpeeds:
  speed = distributions.parse("client_speed", config["client_speed"], **LAWS["client_speed"])

  @functools.cache
  def usual_steps(client: int) -> int:
    fixed = config["client_steps_per_round"]
    batches = fixed or _count(task, task.clients[client], config["client_batch_size"])
    return batches if fixed else batches * (config["client_epochs_per_round"] or 1)

  return clock.ClientSpeeds(len(task.clients), speed, usual_steps, config["seed"])


def _count(task: Task, client: str, batch_size: int) -> int:
  """How many batches a client has."""
  data = task.dataset(client, np.zeros(2, np.int32), batch_size)
  if isinstance(data, DataReference):
    data = data.resolve()
  known = int(data.cardinality())
  return known if known >= 0 else int(data.reduce(tf.zeros([], tf.int64), lambda n, _: n + 1))
