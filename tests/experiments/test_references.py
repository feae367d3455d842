"""The reference lines: centralised training is plain Keras training, local_only is every client alone."""

import json
import types

import numpy as np
import pytest
import tensorflow as tf
from absl import flags

from experiments.cli import flags as cli_flags
from experiments.cli import listings, run_config, run_request
from experiments.reports import contents, palette, result_tables
from experiments.training import build, pooled
from tasks import digits
from tests.helpers import forked_runs
from tests.helpers.report_runs import compared, write_run
from tff_momentum import algorithms, describe
from tff_momentum.algorithm_info import REFERENCE_LINES, REQUIRED
from tff_momentum.simulation import loop, seeds
from tff_momentum.simulation.client_store import MemoryStore


@pytest.fixture(autouse=True)
def _flags():
  if "task" not in flags.FLAGS:
    cli_flags.define_flags()
  yield
  for name in flags.FLAGS:
    flags.FLAGS[name].unparse()


def experiment(*arguments):
  for name in flags.FLAGS:
    flags.FLAGS[name].unparse()
  cli_flags.parse(["run.py", "--task=digits", "--num_clients=12", *arguments])
  request = run_request.from_flags(flags.FLAGS)
  loaded = build.load_task(request)
  held_out = loaded.validation.clients if loaded.validation else ()
  return build.build_experiment(run_config.resolve(request, loaded.task, held_out), loaded)


def rounds(found):
  config = found.config
  store = MemoryStore(loop.client_initializer(found.process, config.seed))
  run = loop.rounds(
    found.process,
    found.task,
    total_rounds=config.total_rounds,
    participation=found.participation,
    client_batch_size=config.client_batch_size,
    seed=config.seed,
    store=store,
    evaluate=found.evaluate,
  )
  return store, list(run)


def keras_model(found):
  """The task's Keras model with its first weights, and plain SGD; made after the process.

  A process builds Keras models in a graph, and Keras then gives its classes the methods of graph mode.
  """
  model = found.task.model.keras()
  model.set_weights(found.task.model.initial_weights)
  rate = found.config.hyperparameters["client_learning_rate"]
  loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
  model.compile(tf.keras.optimizers.legacy.SGD(rate), loss)
  return model


def batches_of_round(found, t):
  """What round t trains on, in order."""
  seed = seeds.client_seeds(found.config.seed, seeds.SHUFFLE, t, [str(t)])[0]
  return list(found.task.dataset(str(t), seed, found.config.client_batch_size))


def test_centralised_equals_plain_keras_training_on_the_pooled_data_step_for_step():
  """With K steps per round, the model after every round is Keras' model after the same steps."""
  found = experiment("--algo=centralised", "--total_rounds=9", "--clients_per_round=2")
  assert found.config.steps_per_round > 1
  _, done = rounds(found)
  model = keras_model(found)
  for t, finished in enumerate(done):
    for batch in batches_of_round(found, t):
      model.train_on_batch(*batch)
    for ours, theirs in zip(
      found.process.weights(finished.state), model.get_weights(), strict=True
    ):
      np.testing.assert_allclose(ours, theirs, rtol=2e-4, atol=2e-5)


def test_one_step_per_round_equals_keras_after_every_single_step():
  found = experiment("--algo=centralised", "--total_rounds=25", "--clients_per_round=1",
                     "--client_steps_per_round=1")  # fmt: skip
  assert found.config.steps_per_round == 1
  _, done = rounds(found)
  model = keras_model(found)
  for t, finished in enumerate(done):
    (batch,) = batches_of_round(found, t)
    model.train_on_batch(*batch)
    for ours, theirs in zip(
      found.process.weights(finished.state), model.get_weights(), strict=True
    ):
      np.testing.assert_allclose(ours, theirs, rtol=2e-4, atol=2e-5)


def test_centralised_batches_are_whole_epochs_of_all_clients_data():
  found = experiment("--algo=centralised", "--total_rounds=30")
  pool = digits.load(seed=1, num_clients=12)
  everything = np.concatenate([
    x.numpy() for c in pool.clients for x, _ in pool.dataset(c, np.zeros(2, np.int32), 64)])  # fmt: skip
  known = {image.tobytes(): 0 for image in everything}
  steps, size = found.config.steps_per_round, found.config.client_batch_size
  for t in range(30):
    trained = batches_of_round(found, t)
    assert [len(x) for x, _ in trained] == [size] * steps
    for x, _ in trained:
      for image in x.numpy():
        known[image.tobytes()] += 1  # KeyError: not an image of a client
  counts = np.array(list(known.values()))
  assert counts.max() - counts.min() <= 1 + (len(everything) != len(known))
  assert counts.sum() == 30 * steps * size


def test_centralised_takes_as_many_steps_as_an_average_cohort():
  given = ("--algo=centralised", "--total_rounds=2", "--clients_per_round=5")
  assert experiment(*given, "--client_steps_per_round=7").config.steps_per_round == 35
  law = experiment(*given, "--client_steps_law=uniform(1, 5)")
  assert law.config.steps_per_round == 15
  assert experiment("--algo=fedavg").config.steps_per_round is None


def test_weight_decay_and_clipping_apply_to_centralised_training():
  plain = rounds(experiment("--algo=centralised", "--total_rounds=2"))[1][-1].row
  decayed = rounds(experiment("--algo=centralised", "--total_rounds=2", "--weight_decay=0.1"))[1][
    -1
  ].row
  clipped = rounds(experiment("--algo=centralised", "--total_rounds=2", "--client_clip_norm=0.01"))[
    1
  ][-1].row
  assert len({row["eval/loss"] for row in (plain, decayed, clipped)}) == 3


def test_a_pool_that_does_not_fit_in_memory_is_one_sentence(monkeypatch):
  monkeypatch.setattr(pooled, "MOST_BYTES", 1000)
  with pytest.raises(
    ValueError, match=r"keeps the examples of all clients in memory.*use --num_clients"
  ):
    experiment("--algo=centralised")


def test_local_only_trains_every_client_alone():
  """Each client's model is Keras' model after the client's own batches, and nobody else's."""
  found = experiment("--algo=local_only", "--total_rounds=6", "--clients_per_round=4")
  store, done = rounds(found)
  models = {}
  size, epochs = found.config.client_batch_size, found.config.client_epochs_per_round
  for t in range(6):
    ids = [found.task.clients[i] for i in found.participation(t).clients]
    for client, seed in zip(
      ids, seeds.client_seeds(found.config.seed, seeds.SHUFFLE, t, ids), strict=True
    ):
      model = models.setdefault(client, keras_model(found))
      for batch in found.task.dataset(client, seed, size).as_dataset().repeat(epochs):
        model.train_on_batch(*batch)
  assert len(models) > 4
  for client, model in models.items():
    for ours, theirs in zip(store.load([client])[0], model.get_weights(), strict=True):
      np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-4)
  # The evaluation is the mean over the drawn clients of their own models' accuracies.
  (x, y), *rest = list(found.task.evaluation(1000))
  assert not rest
  expected = []
  for client in found.evaluate.clients:
    weights = store.load([client])[0]
    keras = keras_model(found)
    keras.set_weights([np.asarray(w) for w in weights])
    expected.append(np.mean(np.argmax(keras.predict(x, verbose=0), 1) == y))
  assert len(expected) == 4
  assert done[-1].row["eval/accuracy"] == pytest.approx(np.mean(expected), abs=1e-6)
  assert done[-1].row["bytes/total"] == 0
  assert not found.has_one_model


def test_reference_lines_are_registered_listed_and_described():
  assert set(algorithms.REFERENCE_LINES) == set(REFERENCE_LINES)
  shown = listings.everything()
  for name, info in REFERENCE_LINES.items():
    assert name not in algorithms.ALGORITHMS
    assert info.hyperparameters == {"client_learning_rate": REQUIRED}
    assert algorithms.builder(name)(client_learning_rate=0.1).name == name
    assert f"  {name} " in shown
    assert info.rule in shown
    assert info.rule in listings.algorithm(name)
    text = describe.describe(name, {}, describe.linear_model(), "a model")
    assert "download  0 bytes" in text
    assert "reference line" in text


def test_reference_lines_in_a_report(tmp_path):
  for algo, value in (
    ("fedavg", 0.8),
    ("scaffold", 0.9),
    ("centralised", 0.95),
    ("local_only", 0.3),
  ):
    write_run(tmp_path, algo, [value] * 4, up=0 if algo in REFERENCE_LINES else 1000,
              down=0 if algo in REFERENCE_LINES else 1000)  # fmt: skip
  (setting,), problems = compared(tmp_path)
  assert not problems
  table = result_tables.final_table([setting])
  cells = {row[0].text: row[1] for row in table.rows}
  assert list(cells)[-2:] == ["Centralised (reference)", "Local only (reference)"]
  assert cells["SCAFFOLD"].place == 1
  assert cells["FedAvg"].place == 2
  assert cells["Centralised (reference)"].place == 0
  assert "Reference lines are not ranked." in table.caption
  assert contents.setting_tables(setting)
  looks = [palette.style(name) for name in REFERENCE_LINES]
  assert {look.colour for look in looks} == {palette.REFERENCE_COLOUR}
  assert looks[0].dashes != looks[1].dashes
  assert not any(palette.style(a).colour == palette.REFERENCE_COLOUR for a in algorithms.ALGORITHMS)


def test_runs_of_reference_lines(tmp_path):
  """Real runs: config.json, no bytes, no model of local_only; the same command says that it is complete."""
  for algo in REFERENCE_LINES:
    command = ["--task=digits", f"--algo={algo}", "--total_rounds=4", "--tune_on=validation", "--quiet",
               f"--root_output_dir={tmp_path}"]  # fmt: skip
    ended = forked_runs.run(*command)
    assert ended.returncode == 0, ended.output
    folder = tmp_path / f"digits_{algo}_1"
    config = types.SimpleNamespace(**json.loads((folder / "config.json").read_text()))
    assert config.algo == algo
    assert (config.steps_per_round is not None) == (algo == "centralised")
    assert json.loads((folder / "summary.json").read_text())["bytes"] == 0
    assert (folder / "model_last").exists() == (algo == "centralised")
    assert "validation/accuracy" in (folder / "metrics.csv").read_text()
    again = forked_runs.run(*command)
    assert again.returncode == 0
    assert "is complete: 4 rounds" in again.output
