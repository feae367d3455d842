"""The contract that every algorithm must meet: one function for each check, but for those of the runtimes.

A check gets a `Candidate` and returns nothing if all is well. It raises `ContractError` with what was
expected, what was found and the usual cause, or `SkippedCheck` if it cannot run here.
"""

from collections.abc import Callable

import numpy as np
import tensorflow as tf

from tff_momentum import wire_bytes
from tff_momentum.processes.exchange import specs
from tff_momentum.simulation import loop, participation
from tff_momentum.testing import quadratics, runtimes
from tff_momentum.testing.candidate import Candidate
from tff_momentum.testing.outcomes import OTHER_STATE, ContractError
from tff_momentum.testing.runs import (
  client_seed,
  first_difference,
  flatten,
  kinds,
  run_process,
)

_FALL = 0.65  # the loss after training, as a part of the loss before it
_TOLERANCE = 1e-5


def check_types(candidate: Candidate) -> None:
  """States and messages keep their structure, shapes and dtypes over the rounds."""
  process, whole = candidate.process, candidate.runs.whole
  after = process.next.type_signature.result
  if not process.initialize.type_signature.result.is_equivalent_to(after.state):
    raise ContractError(
      f"Expected next to return the type of state that initialize returns; found {after.state}."
    )
  start = process.initialize()
  for t, state in enumerate(whole.states):
    if kinds(state) != kinds(start):
      raise ContractError(
        f"Expected every round to keep the shapes and dtypes of the server's state, {kinds(start)}; found "
        f"{kinds(state)} after round {t}."
      )
  fresh = kinds(process.initial_client_state(np.array([1, 2], np.int32)))
  for i, state in whole.clients.items():
    if kinds(state) != fresh:
      raise ContractError(
        f"Expected client_update to keep the shapes and dtypes of init_client, {fresh}; found "
        f"{kinds(state)} for client {i}."
      )
  exchange = process.algorithm.exchanges[0]
  known = (process.first_round_exchanges or process.exchanges)[0]
  for t, state in enumerate([start, *whole.states[:2]]):
    message = exchange.message(state.server, tf.constant(t))
    found = exchange.download_bytes(tf.nest.map_structure(tf.type_spec_from_value, message))
    if found != known.bytes_down:
      raise ContractError(
        f"Expected a message of {known.bytes_down} bytes in every round, by its type; found {found} bytes "
        f"in round {t}: its shapes or dtypes must not depend on the round."
      )


def check_seeds(candidate: Candidate) -> None:
  """Two runs of two builds with the same seeds are bit-identical."""
  runs = candidate.runs
  for t in range(len(runs.again.states)):
    for what in ("states", "metrics"):
      first, second = getattr(runs.whole, what)[t], getattr(runs.again, what)[t]
      if (found := first_difference(first, second)) is not None:
        raise ContractError(
          f"Expected two runs with the same seeds to be bit-identical; found that {found} after round {t}. "
          "The usual cause is unseeded randomness (tf.random.normal, np.random, random): draw with "
          "tf.random.stateless_normal and the like, from client.seed(purpose) or a fixed seed."
        )


def check_resume(candidate: Candidate) -> None:
  """A run resumed from a checkpoint is bit-identical to one that was never stopped."""
  runs = candidate.runs
  for t, state in enumerate(runs.resumed.states, runs.checkpoint):
    if (found := first_difference(runs.whole.states[t], state)) is not None:
      raise ContractError(
        f"Expected a run that resumes after {runs.checkpoint} rounds to be bit-identical to one that never "
        f"stopped; found that {found} after round {t}. {OTHER_STATE}"
      )


def check_empty_clients(candidate: Candidate) -> None:
  """Clients without examples change neither the server's state nor their own."""
  runs = candidate.runs
  for t, state in enumerate(runs.beside.states):
    found = first_difference(runs.whole.states[t], state, _TOLERANCE)
    if found is not None:
      raise ContractError(
        f"Expected clients without examples to change nothing; found that {found} after round {t}, beside "
        "the same cohort without them. They must not count in any mean or sum."
      )
    if int(runs.beside.metrics[t]["clients"]) != 2:
      raise ContractError(
        f"Expected 2 clients in round {t}, without the 2 that have no examples; found "
        f"{int(runs.beside.metrics[t]['clients'])}."
      )
  for i in quadratics.EMPTY:
    fresh = candidate.process.initial_client_state(client_seed(0, i))
    if (found := first_difference(fresh, runs.beside.clients[i])) is not None:
      raise ContractError(
        f"Expected a client without examples to keep its state; found that {found}."
      )


def check_empty_round(candidate: Candidate) -> None:
  """A round in which no client has examples changes only the number of the round."""
  runs = candidate.runs
  (state,), before = runs.nobody.states, runs.whole.states[runs.checkpoint - 1]
  if int(state.round) != int(before.round) + 1:
    raise ContractError(
      f"Expected round {int(before.round) + 1} after an empty one; found {int(state.round)}."
    )
  if (found := first_difference(before.server, state.server)) is not None:
    raise ContractError(
      f"Expected a round without any examples to leave the server's state alone; found that {found}."
    )


def check_dropouts(candidate: Candidate) -> None:
  """The round loop goes on when clients drop out, even all of a cohort."""
  # With seed 5, 30% of dropouts and cohorts of two, at least one round loses all its clients.
  pattern = participation.with_dropouts(participation.uniform(6, 2, 5), 0.3, 5)
  with runtimes.installed("inprocess"):
    result = loop.run(
      candidate.process,
      quadratics.QuadraticTask(),
      total_rounds=12,
      participation=pattern,
      rounds_per_eval=0,
    )
  if not all(np.isfinite(w).all() for w in result.weights):
    raise ContractError(
      "Expected finite weights after 12 rounds in which clients drop out; found infinities or NaN."
    )
  for row in result.history:
    skipped = not row["clients"]
    if skipped and (row["update_norm"] != 0 or row["bytes/up"] != 0 or "train/loss" in row):
      raise ContractError(
        f"Expected round {row['round']}, in which every client dropped out, to change and upload nothing; "
        f"found an update of norm {row['update_norm']:.2g} and {row['bytes/up']} bytes."
      )


def check_non_finite(candidate: Candidate) -> None:
  """A client whose gradients are NaN is left out, and the others go on as without it."""
  process, broken = candidate.process, 1

  def dataset(i):
    return (quadratics.broken_dataset if i == broken else quadratics.dataset)(i)

  with runtimes.installed("inprocess"):
    found = run_process(process, [(0, broken, 3)] * 2, dataset=dataset)
    without = run_process(process, [(0, 3)] * 2, dataset=dataset)
  for t, (state, metrics) in enumerate(zip(found.states, found.metrics, strict=True)):
    count = int(metrics["non_finite"])
    if count != 1:
      raise ContractError(
        f"Expected 1 rejected update in round {t}, of the client whose gradients are NaN; found {count}. Its "
        "NaN must reach the upload or the client's state: tf.where, tf.sign and clipping can hide it."
      )
    if (what := first_difference(without.states[t], state, _TOLERANCE)) is not None:
      raise ContractError(
        f"Expected a rejected client to change nothing; found that {what} after round {t}, beside the same "
        "cohort without it."
      )
  if not np.isfinite(flatten((found.states[-1].server, found.clients, [0.0]))).all():
    raise ContractError(
      "Expected finite states beside a client whose gradients are NaN; found infinities or NaN."
    )


def check_bytes(candidate: Candidate) -> None:
  """The bytes on the wire are those of the types; a compressed size is not above them."""
  process = candidate.process
  for number, each in enumerate((*process.exchanges, *process.first_round_exchanges)):
    for way, said, sent in (
      ("download", each.bytes_down, each.message),
      ("upload", each.bytes_up, each.upload),
    ):
      dense = wire_bytes.dense_bytes(specs(sent))
      if not isinstance(said, int) or not 0 <= said <= dense:
        raise ContractError(
          f"Expected {way}_bytes of exchange {number} to be a whole number from 0 to {dense}, the bytes of "
          f"its type {sent}; found {said!r}: it must count what is sent, after compression."
        )
  for t, first in ((0, process.first_round_exchanges), (1, ())):
    exchanges = (*process.exchanges, *first)
    expected = [sum(getattr(e, way) for e in exchanges) for way in ("bytes_down", "bytes_up")]
    if (counted := [process.bytes_down(t), process.bytes_up(t)]) != expected:
      raise ContractError(
        f"Expected {expected} bytes down and up in round {t}, the sum over its exchanges; found {counted}."
      )


def check_loss(candidate: Candidate) -> None:
  """The loss falls on heterogeneous quadratics."""
  whole = candidate.runs.whole
  start = quadratics.loss(flatten(quadratics.quadratic_model().initial_weights))
  # The mean of the last models, because momentum oscillates around it.
  with np.errstate(all="ignore"):
    end = quadratics.loss(np.mean(whole.x[-10:], axis=0))
  if not end < _FALL * start:
    cause = (
      "The loss falls too slowly: pass a higher learning rate to the check, or look for a step that is "
      "scaled down."
      if end < start
      else "The loss rises. The usual cause is a wrong sign: a client uploads x − y, and the server "
      "subtracts the mean upload. A learning rate that is too high does the same."
    )
    raise ContractError(
      f"Expected the loss on heterogeneous quadratics to fall from {start:.3g} to below "
      f"{_FALL * start:.3g} in {quadratics.ROUNDS} rounds; found {end:.3g}. {cause}"
    )
  if not np.isfinite([float(m["train"]["loss"]) for m in whole.metrics]).all():
    raise ContractError("Expected a finite training loss in every round; found infinities or NaN.")


FUNCTIONS: dict[str, Callable[[Candidate], None]] = {
  "types": check_types,
  "seeds": check_seeds,
  "resume": check_resume,
  "empty_clients": check_empty_clients,
  "empty_round": check_empty_round,
  "dropouts": check_dropouts,
  "non_finite": check_non_finite,
  "bytes": check_bytes,
  "loss": check_loss,
}
