"""Shakespeare from TFF: the next character of a role's lines, by role (McMahan et al. 2017)."""

import collections
import pathlib
from collections.abc import Callable

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tasks.data import downloads, folders, sqlite, synthetic
from tasks.data.sources import (
  DATA,
  Raw,
  Source,
  last_fifth_for_testing,
  redistributed_iid,
  task_from_source,
  tff_source,
)
from tasks.models import text
from tasks.models.classification import accuracy, cross_entropy
from tasks.models.images import PENULTIMATE
from tasks.task import Defaults, Task
from tff_momentum import validation
from tff_momentum.models.keras import from_keras
from tff_momentum.models.model import Model

LENGTH = 80
# TFF's 86 characters in TFF's order. Token 0 is padding; unknown, begin and end follow the characters.
TFF_CHARACTERS = (
  "dhlptx@DHLPTX $(,048cgkoswCGKOSW[_#'/37;?bfjnrvzBFJNRVZ\"&*.26:\naeimquyAEIMQUY]!%)-159\r"
)
# LEAF's 80 characters; FedGBO uses 79.
LEAF_CHARACTERS = (
  "\n !\"&'(),-.0123456789:;>?ABCDEFGHIJKLMNOPQRSTUVWXYZ[]abcdefghijklmnopqrstuvwxyz}"
)
MODELS = ("lstm", "lstm100", "gru")
ROLES = 715


def load(
  *,
  seed: int,
  model: str = "lstm",
  partition: str = "role",
  data: str = "real",
  data_dir: str | None = None,
  num_clients: int | None = None,
  max_examples_per_client: int | None = None,
) -> Task:
  """Loads the task.

  Args:
    seed: seed of the initial weights and the synthetic data.
    model: lstm (two LSTMs of 256 units, which predict the next character after each of 80; McMahan et al.),
      lstm100 (GHBM) or gru (FedGBO). The last two predict one character after a window of 80 characters that
      slides over a role's lines.
    data: real or synthetic.
    data_dir: the folder that contains `tff/shakespeare.sqlite`.
    partition: role (a client is a role, with TFF's split into training and test lines), last_fifth (the last
      fifth of a role's lines is for testing; FedGBO, which has 660 roles), or iid (the training lines of all
      roles are split at random; GHBM, appendix C.1).
    num_clients: keep only this many roles, those with the most lines; with iid, the number of clients. None
      means 100 for lstm100 and all roles for the other models.
    max_examples_per_client: upper bound on a client's sequences. None means 2,000 for lstm100 and no bound
    for
      the other models.

  Returns:
    The task.

  Raises:
    ValueError: an option is invalid, or (`DataError`) the data is missing or damaged.
  """
  validation.one_of("model", model, MODELS)
  validation.one_of("data", data, DATA)
  validation.one_of("partition", partition, ("role", "last_fifth", "iid"))
  if model == "lstm100":
    num_clients = 100 if num_clients is None else num_clients
    max_examples_per_client = 2000 if max_examples_per_client is None else max_examples_per_client
  if max_examples_per_client is not None:
    validation.integer("max_examples_per_client", max_examples_per_client, at_least=1)
  roles = None if partition == "iid" else num_clients
  more: Callable[[str], Raw] | None = None
  if data == "synthetic":
    source = synthetic.synthetic_source(
      synthetic.speeches(), seed=seed, num_clients=roles or ROLES, examples=20
    )
  else:
    source = real(folders.root(data_dir), roles)
    more = real(folders.root(data_dir), test=True).read if partition == "last_fifth" else None
  if partition == "iid":
    source = redistributed_iid(source, num_clients or len(source.clients), seed)
  if partition == "last_fifth":
    source = last_fifth_for_testing(source, more)
  whole = model == "lstm"
  prepare = _sequences if whole else _windows(LEAF_CHARACTERS[: 80 if model == "lstm100" else 79])
  return task_from_source(
    "shakespeare",
    source,
    _sequence_model(seed) if whole else _window_model(model, seed),
    lambda raw: tf.nest.map_structure(lambda a: a[:max_examples_per_client], prepare(raw)),
    _DEFAULTS[model],
    {
      "model": model,
      "partition": partition,
      "max_examples_per_client": max_examples_per_client,
    },
    finish=lambda batch: tf.nest.map_structure(lambda t: tf.cast(t, tf.int32), batch),
  )


_DEFAULTS = {
  "lstm": Defaults(
    total_rounds=1200, clients_per_round=10, client_batch_size=4, client_learning_rate=1.0
  ),
  "lstm100": Defaults(
    total_rounds=250, clients_per_round=10, client_batch_size=100, client_learning_rate=1.0
  ),
  "gru": Defaults(
    total_rounds=500, clients_per_round=7, client_batch_size=32, client_learning_rate=1.0
  ),
}


def real(root: pathlib.Path, num_clients: int | None = None, *, test: bool = False) -> Source:
  """Returns the roles of TFF's file with their training lines or, with `test`, their test lines."""
  path = root / "tff" / "shakespeare.sqlite"
  downloads.tff_database(path, sqlite.check)
  order = slice(None, None, -1 if test else 1)
  return tff_source(
    path,
    lambda: tff.simulation.datasets.shakespeare.load_data(cache_dir=str(path.parent))[order],
    splits=("test", "train") if test else ("train", "test"),
    num_clients=num_clients,
  )


def _table(characters: str, first: int, unknown: int) -> np.ndarray:
  table = np.full(256, unknown, np.uint8)
  table[np.frombuffer(characters.encode(), np.uint8)] = np.arange(first, first + len(characters))
  return table


def _sequences(raw: Raw) -> tuple[np.ndarray, np.ndarray]:
  """Encloses each speech in begin and end tokens, pads it and cuts it into rows of 81 (as TFF does)."""
  unknown = len(TFF_CHARACTERS) + 1
  table, rows = _table(TFF_CHARACTERS, 1, unknown), []
  for speech in raw["snippets"]:
    ids = table[np.frombuffer(speech, np.uint8)]
    line = np.concatenate([[unknown + 1], ids, [unknown + 2]]).astype(np.uint8)
    rows.append(np.pad(line, (0, -len(line) % (LENGTH + 1))).reshape(-1, LENGTH + 1))
  tokens = np.concatenate(rows)
  return tokens[:, :-1], tokens[:, 1:]


def _windows(characters: str) -> Callable[[Raw], tuple[np.ndarray, np.ndarray]]:
  """Returns a function from lines to all windows of 80 characters and the character after each (LEAF)."""
  table = _table(characters, 0, characters.index(" "))

  def windows(raw: Raw) -> tuple[np.ndarray, np.ndarray]:
    lines = table[np.frombuffer(b"\n".join(raw["snippets"]), np.uint8)]
    if len(lines) <= LENGTH:  # a short role: one window, padded with spaces in front
      lines = np.pad(lines, (LENGTH + 1 - len(lines), 0), constant_values=characters.index(" "))
    all_windows = np.lib.stride_tricks.sliding_window_view(lines, LENGTH + 1)
    return all_windows[:, :-1], all_windows[:, -1]

  return windows


def _sequence_model(seed: int) -> Model:
  spec = tf.TensorSpec([None, LENGTH], tf.int32)
  return from_keras(
    lambda: text.next_characters(len(TFF_CHARACTERS) + 4),
    loss=text.token_loss,
    batch_spec=(spec, spec),
    metrics=collections.OrderedDict(accuracy=text.token_accuracy(())),
    seed=seed,
    penultimate=PENULTIMATE,
  )


def _window_model(model: str, seed: int) -> Model:
  build = {
    "lstm100": lambda: text.one_character_lstm(80),
    "gru": lambda: text.one_character_gru(79),
  }
  return from_keras(
    build[model],
    loss=cross_entropy,
    batch_spec=(tf.TensorSpec([None, LENGTH], tf.int32), tf.TensorSpec([None], tf.int32)),
    metrics=collections.OrderedDict(accuracy=accuracy),
    seed=seed,
    penultimate=PENULTIMATE,
  )
