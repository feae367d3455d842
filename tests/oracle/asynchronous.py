"""Asynchronous clients: Autonomous Multistage FedGM (FedGM, Algorithm 4), driven by a list of events.

The oracle has no clock; it reads the events in order of time:
`Start(job, client, steps)`, a client downloads the current model and begins `steps` local steps;
`Arrive(job)`, the update of that job arrives at the server.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from tests.oracle.general_momentum import stage_of
from tests.oracle.problem import Problem, Trace, at, batches, examples, mean
from tests.oracle.server_step import local_sgd


class Start(NamedTuple):
  """A client begins; `steps` None means the problem's own number."""

  job: Any
  client: int
  steps: int | None = None


class Arrive(NamedTuple):
  """The update of a job started earlier arrives."""

  job: Any


class Running(NamedTuple):
  """A running job: its client, model and version."""

  client: int
  version: int
  normalised: np.ndarray  # Δ_i/K_{t,i}, determined when the client starts


def events_without_delay(
  cohorts: Sequence[Sequence[int]], steps: int | None = None
) -> list[Start | Arrive]:
  """Each cohort starts on the newest model and arrives in full before the next one starts."""
  events: list[Start | Arrive] = []
  for t, cohort in enumerate(cohorts):
    events += [Start((t, k), i, steps) for k, i in enumerate(cohort)]
    events += [Arrive((t, k)) for k in range(len(cohort))]
  return events


def _begin(problem: Problem, event: Start, x: np.ndarray, version: int, eta_l: float) -> Running:
  own = problem if event.steps is None else problem._replace(steps=event.steps)
  K = len(batches(own, event.client))
  return Running(event.client, version, local_sgd(own, event.client, x, eta_l) / K)


def autofedgm(
  problem,
  events,
  *,
  client_learning_rate,
  m,
  beta=None,
  nu=None,
  server_learning_rate=1.0,
  stages=None,
  max_staleness=None,
  stale="drop",
  client_weighting="uniform",
) -> Trace:
  """Steps as fedgm on E[Δ_i/K] whenever m updates have arrived; Trace.x has one model per step.

  drop: an update that arrives more than `max_staleness` versions after it started is left out and
  counted. block: the server does not step while that would make a running job too old; it then
  takes every update that arrived meanwhile, which may be more than m.
  """
  x, d, version = problem.x0, np.zeros_like(problem.x0), 0
  running: dict[Any, Running] = {}
  arrived: list[Running] = []
  xs, dropped = [], 0
  bound = np.inf if max_staleness is None else max_staleness
  for event in events:
    if isinstance(event, Start):
      if examples(problem, event.client):
        eta_l = at(client_learning_rate, version)
        running[event.job] = _begin(problem, event, x, version, eta_l)
      continue
    if event.job not in running:
      continue
    update = running.pop(event.job)
    if version - update.version > bound:
      dropped += 1
      continue
    arrived.append(update)
    awaited = stale == "block" and any(version + 1 - r.version > bound for r in running.values())
    if len(arrived) < m or awaited:
      continue
    E = mean(problem, [u.client for u in arrived], client_weighting)
    Delta = E([u.normalised for u in arrived])
    if stages is None:
      eta_s, beta_s, nu_s = at(server_learning_rate, version), beta, nu
    else:
      eta_s, beta_s, nu_s = stage_of(stages, version)
    d = (1 - beta_s) * Delta + beta_s * d
    h = (1 - nu_s) * Delta + nu_s * d
    x, version, arrived = x - eta_s * h, version + 1, []
    xs.append(x)
  return Trace(xs, {"d": d, "dropped": dropped}, {})


def autofedavg(problem, events, **hyperparameters) -> Trace:
  """autofedgm with ν = 0: no momentum, but uploads are divided by K."""
  return autofedgm(problem, events, beta=0.0, nu=0.0, **hyperparameters)
