"""What `build_process` checks and says: declared client work, types of state, and `repr`s."""

import dataclasses

import pytest
import tensorflow as tf

from tests.helpers import harness
from tff_momentum import algorithms, trees
from tff_momentum.algorithm import Algorithm, Exchange, Update
from tff_momentum.processes.process import _reporting_metrics, build_process


def sgd(y, grad):
  return trees.map(lambda y, g: y - 0.1 * g, y, grad(y))


UPDATES = {
  "local_steps": lambda client, x, state: Update(client.steps(sgd, x)),
  "full_gradient": lambda client, x, state: Update(client.full_gradient(x)),
  "none": lambda client, x, state: Update(trees.zeros_like(x)),
}


def exchange(does, declares, **options):
  return Exchange(
    lambda x, t: x, UPDATES[does], lambda x, mean, info: x, client_work=declares, **options
  )


def build(*exchanges):
  algorithm = Algorithm(init_server=lambda x: x, exchanges=exchanges, model=lambda x: x)
  return build_process(algorithm, harness.softmax_model())


@pytest.mark.parametrize("once", [False, True])
@pytest.mark.parametrize("does", UPDATES)
@pytest.mark.parametrize("declares", UPDATES)
def test_an_exchange_does_what_it_declares(does, declares, once):
  steps = exchange("local_steps", "local_steps")
  if does == declares:
    build(exchange(does, declares, first_round_only=once), steps)
    return
  expected = rf"client_work='{declares}'.*found one with '{does}'"
  with pytest.raises(ValueError, match=expected):
    build(exchange(does, declares, first_round_only=once), steps)


def test_an_unknown_kind_of_work_is_refused():
  with pytest.raises(ValueError, match="client_work must be one of local_steps, full_gradient, no"):
    exchange("none", "walk")


@pytest.mark.parametrize(
  ("kinds", "expected"),
  [
    (("full_gradient", "local_steps", "none"), 1),
    (("local_steps", "full_gradient"), 0),
    (("local_steps", "local_steps"), 1),
    (("full_gradient", "none"), 0),
  ],
)
def test_the_last_exchange_with_local_steps_gives_the_metrics(kinds, expected):
  process = build(*(exchange(kind, kind) for kind in kinds))
  reported = [hasattr(e.client.type_signature.result, "tally") for e in process.compiled_exchanges]
  assert reported == [kind != "none" for kind in kinds]
  assert _reporting_metrics(process.compiled_exchanges) == expected


def test_a_round_without_any_gradient_is_refused():
  once = exchange("local_steps", "local_steps", first_round_only=True)
  with pytest.raises(ValueError, match=r"calls Client\.steps or Client\.full_gradient"):
    build(exchange("none", "none"), once)


def test_a_state_that_changes_its_type_is_refused():
  wrong = dataclasses.replace(
    exchange("local_steps", "local_steps"), server_update=lambda x, mean, info: x[:1]
  )
  with pytest.raises(ValueError, match="Expected the last server_update to return the type"):
    build(wrong)


def test_integer_uploads_are_refused():
  wrong = dataclasses.replace(
    exchange("local_steps", "local_steps"),
    client_update=lambda client, x, state: Update(tf.cast(client.steps(sgd, x)[0], tf.int32)),
  )
  with pytest.raises(ValueError, match=r"floating-point.*cast integers"):
    build(wrong)


def test_an_upload_may_be_a_single_tensor():
  process = build(
    dataclasses.replace(
      exchange("local_steps", "local_steps"),
      client_update=lambda client, x, state: Update(client.steps(sgd, x)[0]),
    )
  )
  assert process.bytes_up(0) == 48


def test_reprs_say_what_a_thing_is():
  algorithm = algorithms.builder("mime")(client_learning_rate=0.1)
  assert repr(algorithm) == "Algorithm(mime(client_learning_rate=0.1), 2 exchanges per round)"
  unnamed = dataclasses.replace(algorithm, name="mine", hyperparameters={}, max_staleness=3)
  assert repr(unnamed) == "Algorithm(mine, 2 exchanges per round, max_staleness=3)"
  model = harness.softmax_model()
  assert repr(model) == "Model(16 parameters: float32[3, 4], float32[4])"
  assert repr(build_process(algorithm, model)) == (
    "FederatedProcess(mime, 16 parameters, per client and round 256 bytes down and 128 bytes up)"
  )
