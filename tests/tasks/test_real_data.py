"""The real loaders: on the cache that TFM_DATA_DIR names, and on small files of the real formats."""

import os
import pathlib

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_datasets as tfds
import tensorflow_federated as tff

import tasks
from tasks.data.folders import DataError
from tff_momentum import algorithms
from tff_momentum.processes.process import build_process
from tff_momentum.simulation import loop

DATA_DIR = os.environ.get("TFM_DATA_DIR", "")
needs_data = [
  pytest.mark.data,
  pytest.mark.skipif(not DATA_DIR, reason="TFM_DATA_DIR does not name a data cache"),
]
SEED = np.array([3, 4], np.int32)
NINE = ["emnist_digits", "shakespeare", "stackoverflow", "stackoverflow_tag", "cifar100",
        "cifar10_dirichlet", "cifar100_dirichlet", "cifar10_two_class", "fashion_mnist"]  # fmt: skip


def load(name, data_dir=DATA_DIR, **options):
  return tasks.loader(name)(seed=0, data_dir=str(data_dir), **options)


def collect(dataset):
  batches = [tuple(part.numpy() for part in tf.nest.flatten(batch)) for batch in dataset]
  return [np.concatenate(column) for column in zip(*batches, strict=True)]


class TestCache:
  pytestmark = needs_data

  @pytest.mark.parametrize(
    ("name", "options", "parameters"),
    [
      ("emnist_digits", {}, 1_663_370),
      ("emnist", {"model": "cnn_dropout"}, 1_206_590),
      ("shakespeare", {"model": "lstm100"}, 132_720),
      ("shakespeare", {"model": "lstm100", "partition": "iid"}, 132_720),
      ("shakespeare", {"model": "gru", "partition": "last_fifth"}, 162_887),
      ("stackoverflow", {}, 4_050_748),
      ("stackoverflow_tag", {}, 5_000_500),
      ("stackoverflow_tag", {"vocabulary_size": 2_000, "num_tags": 100}, 200_100),
      ("cifar100", {"model": "lenet", "crop": 32}, 815_332),
      ("cifar10_dirichlet", {"alpha": 0.5}, 797_962),
      ("cifar100_dirichlet", {"model": "resnet20"}, 275_572),
      ("cifar10_two_class", {}, 2_210_410),
      ("fashion_mnist", {}, 328_810),
      ("tfds:fashion_mnist", {"partition": "dirichlet:0.3", "model": "logistic"}, 7_850),
    ],
  )
  def test_gradients_on_real_clients(self, name, options, parameters):
    task = load(name, **options)
    assert task.data == "real"
    assert task.model.num_parameters == parameters
    dataset = task.dataset(task.clients[1], SEED, 8)
    assert dataset.element_spec == task.model.batch_spec
    weights = tuple(tf.constant(w) for w in task.model.initial_weights)
    batch = next(iter(dataset))
    tally, gradient = tf.function(task.model.value_and_grad)(weights, batch, tf.constant(SEED))
    assert np.isfinite(tally.loss)
    assert all(np.isfinite(g).all() for g in gradient)
    assert next(iter(task.evaluation(8)))

  @pytest.mark.slow
  @pytest.mark.parametrize("name", NINE)
  def test_trains_on_real_clients(self, name):
    """Rounds of the paper's model on real clients lower the loss of those clients."""
    task = load(name, num_clients=3, max_examples_per_client=32)
    rate = task.defaults.client_learning_rate / 3  # a paper's rate is for whole clients
    process = build_process(algorithms.builder("fedavg")(client_learning_rate=rate), task.model)
    rounds = loop.rounds(process, task, total_rounds=6, clients_per_round=3, client_batch_size=8,
                         rounds_per_eval=0)  # fmt: skip
    losses = [finished.row["train/loss"] for finished in rounds]
    print(name, [round(loss, 3) for loss in losses])
    assert losses[-1] < losses[0]

  def test_emnist_examples_are_those_of_tffs_loader(self):
    train, test = tff.simulation.datasets.emnist.load_data(cache_dir=f"{DATA_DIR}/tff")
    task = load("emnist_digits")
    client = train.client_ids[5]
    images, labels = collect(task.dataset(client, SEED, 16))
    theirs = list(train.create_tf_dataset_for_client(client).as_numpy_iterator())
    assert sorted(labels) == sorted(row["label"] for row in theirs)
    ours = np.sort(images.reshape(len(images), -1).sum(1))
    np.testing.assert_allclose(ours, np.sort([row["pixels"].sum() for row in theirs]), rtol=1e-5)
    assert len(collect(task.evaluation(512))[1]) == sum(
      1 for _ in test.create_tf_dataset_from_all_clients()
    )

  def test_shakespeare_sequences_are_those_of_tffs_task(self):
    from tensorflow_federated.python.simulation.baselines.shakespeare import (
      char_prediction_preprocessing,
    )

    train, _ = tff.simulation.datasets.shakespeare.load_data(cache_dir=f"{DATA_DIR}/tff")
    task = load("shakespeare")
    client = task.clients[7]
    spec = tff.simulation.baselines.ClientSpec(num_epochs=1, batch_size=8, shuffle_buffer_size=1)
    preprocess = char_prediction_preprocessing.create_preprocess_fn(spec)
    theirs = collect(preprocess(train.create_tf_dataset_for_client(client)))
    ours = collect(task.dataset(client, SEED, 8))
    for a, b in zip(ours, theirs, strict=True):
      np.testing.assert_array_equal(a[np.lexsort(a.T)], b[np.lexsort(b.T)])

  def test_shakespeares_lines_dealt_out_or_with_the_last_fifth_held_back(self):
    """No line is lost or doubled: the windows of lines are too many to compare, so lines are counted."""
    from tasks import shakespeare
    from tasks.data import folders, sources

    root = folders.root(DATA_DIR)
    train, test = shakespeare.real(root), shakespeare.real(root, test=True)
    lines = sorted(line for c in train.clients for line in train.read(c)["snippets"])
    dealt = sources.redistributed_iid(train, 100, 1)
    assert sorted(line for c in dealt.clients for line in dealt.read(c)["snippets"]) == lines
    sizes = [len(dealt.read(c)["snippets"]) for c in dealt.clients]
    assert max(sizes) - min(sizes) <= 1
    held = sources.last_fifth_for_testing(train, test.read)
    kept = sum(len(held.read(c)["snippets"]) for c in held.clients)
    assert kept == held.total_examples
    assert kept + len(held.read_test()["snippets"]) == len(lines) + test.total_examples
    role = held.clients[0]
    both = [*train.read(role)["snippets"], *test.read(role)["snippets"]]
    assert list(held.read(role)["snippets"]) == both[: len(both) - max(1, len(both) // 5)]

  def test_classes_per_client_on_real_labels(self):
    task = load("fashion_mnist")
    labels = [collect(task.dataset(c, SEED, 256))[1] for c in task.clients[:6]]
    assert all(len(y) == 1200 and len(np.unique(y)) <= 2 for y in labels)

  def test_a_task_asks_for_at_most_the_clients_there_are(self):
    with pytest.raises(ValueError, match="num_clients must be at most the 836 clients"):
      load("emnist_digits", num_clients=5000)
    assert len(load("emnist_digits", num_clients=10).clients) == 10


def test_landmarks_in_tffs_files(tmp_path):
  from tensorflow_federated.python.simulation.datasets import vision_datasets_utils

  rng = np.random.default_rng(0)

  def write(path: pathlib.Path, labels):
    path.parent.mkdir(parents=True, exist_ok=True)
    with tf.io.TFRecordWriter(str(path)) as writer:
      for label in labels:
        image = tf.io.encode_jpeg(rng.integers(0, 255, (60, 80, 3)).astype(np.uint8)).numpy()
        writer.write(vision_datasets_utils.create_example(image, label).SerializeToString())

  folder = tmp_path / "tff" / "gld160k"
  write(folder / "train" / "ann", [3, 4, 2027])
  write(folder / "train" / "bob", [5])
  write(folder / "test.tfRecord", [1, 2])
  task = load("gldv2", tmp_path, image_size=32)
  assert list(task.clients) == ["ann", "bob"]
  assert task.total_examples == 4
  images, labels = collect(task.dataset("ann", SEED, 2))
  assert images.shape == (3, 32, 32, 3)
  assert sorted(labels) == [3, 4, 2027]
  assert -1 <= images.min() < images.max() <= 1
  np.testing.assert_array_equal(collect(task.evaluation(2))[1], [1, 2])
  whole = (folder / "train" / "bob").read_bytes()
  (folder / "train" / "bob").write_bytes(whole[:-9])
  with pytest.raises(DataError, match="bob is truncated after 0 examples"):
    load("gldv2", tmp_path, image_size=32)
  with pytest.raises(DataError, match=r"USER_120K is not at .*--data=synthetic"):
    load("inaturalist", tmp_path)


def test_sent140_in_tfds_files(tmp_path):
  builder = tfds.builder("sentiment140", data_dir=str(tmp_path / "unused"))
  rows = [
    (k, {"date": "", "user": user, "text": text, "query": "", "polarity": polarity})
    for k, (user, text, polarity) in enumerate(
      [("ann", f"so happy today {k}", 4) for k in range(12)]
      + [("bob", f"sad sad news {k}", 0) for k in range(10)]
      + [("few", "hello", 4)] * 9
    )
  ]
  tfds.dataset_builders.store_as_tfds_dataset(
    name="sentiment140",
    version=str(builder.version),
    data_dir=str(tmp_path / "tfds"),
    features=builder.info.features,
    split_datasets={"train": rows, "test": rows[:1]},
    disable_shuffling=True,
  )
  task = load("sent140", tmp_path)
  assert task.model.num_parameters == 10_002
  assert len(task.clients) == 2  # the user of nine tweets is left out
  assert task.total_examples == 10 + 8
  bags, labels = collect(task.dataset("0", SEED, 4))
  np.testing.assert_allclose(bags.sum(1), np.ones(10), rtol=1e-6)
  np.testing.assert_array_equal(labels, np.ones(10))
  assert len(collect(task.evaluation(4))[1]) == 2 + 2


def test_emnist_balanced_in_tfds_files(tmp_path):
  builder = tfds.builder("emnist/balanced", data_dir=str(tmp_path / "unused"))
  rng = np.random.default_rng(0)
  rows = [
    (k, {"image": rng.integers(0, 255, (28, 28, 1)).astype(np.uint8), "label": k % 47})
    for k in range(188)
  ]
  tfds.dataset_builders.store_as_tfds_dataset(
    name="emnist",
    config="balanced",
    version=str(builder.version),
    data_dir=str(tmp_path / "tfds"),
    features=builder.info.features,
    split_datasets={"train": rows, "test": rows[:47]},
    disable_shuffling=True,
  )
  task = load("emnist_sorted", tmp_path, num_clients=47)
  assert task.model.num_parameters == 36_895
  labels = [collect(task.dataset(c, SEED, 4))[1] for c in task.clients]
  assert all(len(y) == 4 and len(np.unique(y)) == 1 for y in labels)


def test_concrete_from_a_csv_file(tmp_path):
  rng = np.random.default_rng(0)
  lines = ["a;b;strength"] + [
    f"{x};{y};{2 * x + y}" for x, y in rng.uniform(0, 9, (60, 2)).round(2)
  ]
  (tmp_path / "concrete.csv").write_text("\n".join(lines))
  task = load("concrete", tmp_path, num_clients=6)
  assert task.total_examples == 48
  assert task.model.num_parameters == 3
  (tmp_path / "concrete.csv").write_text("a;b\n1;x\n")
  with pytest.raises(DataError, match="expected numbers below a header line"):
    load("concrete", tmp_path)
  with pytest.raises(DataError, match=r"concrete.csv is not at .*--data=synthetic"):
    load("concrete", tmp_path / "nowhere")


@pytest.mark.parametrize(("name", "match"), [("no_such_set", "There is no TFDS data set")])
def test_unknown_tfds_names(tmp_path, name, match):
  with pytest.raises(DataError, match=match):
    load(f"tfds:{name}", tmp_path)


def test_tfds_without_network_says_what_to_do(tmp_path, monkeypatch):
  monkeypatch.setattr("tasks.data.downloads.offline", lambda: "there is no network")
  with pytest.raises(DataError, match=r"cifar10 is not at .*--data_dir.*--data=synthetic"):
    load("cifar10_dirichlet", tmp_path)
