"""Data that Ray's actors read themselves, by the name of a loader."""

import dataclasses
import os
import pathlib
import time

import numpy as np
import tensorflow as tf

from tests.helpers import harness
from tff_momentum.runtime import ClientBatches


@dataclasses.dataclass
class Clients:
  """Clients with `examples` examples each; reading one creates a file in `marks` and takes `seconds`."""

  examples: int
  marks: str
  seconds: float
  batches: bool = False

  def dataset(
    self, client: str, seed: np.ndarray, batch_size: int
  ) -> tf.data.Dataset | ClientBatches:
    if client == "broken":
      return _broken(batch_size)
    if client == "deadly":
      os._exit(1)
    if client == "missing":
      raise FileNotFoundError("no file for this client")
    if self.marks:
      (pathlib.Path(self.marks) / f"{client}-{os.getpid()}").touch()
    time.sleep(self.seconds)
    rng = np.random.default_rng([int(client), *(int(part) for part in seed)])
    x = rng.normal(int(client), 1.0, (self.examples, harness.FEATURES)).astype(np.float32)
    y = rng.integers(0, harness.CLASSES, self.examples).astype(np.int32)
    if self.batches:
      return ClientBatches((x, y), batch_size=batch_size, seed=seed)
    return tf.data.Dataset.from_tensor_slices((x, y)).batch(batch_size)


def _broken(batch_size: int) -> tf.data.Dataset:
  def complain(x, y):
    with tf.control_dependencies([tf.debugging.assert_less(y, 0, message="bad label")]):
      return tf.identity(x), y

  return (
    tf.data.Dataset.from_tensor_slices(harness.client_examples(0)).map(complain).batch(batch_size)
  )


@dataclasses.dataclass
class WaitingClients:
  """Clients that wait for a time, drawn from a log-normal distribution, instead of computing."""

  scale: float

  def seconds(self, client: int) -> float:
    return self.scale * np.random.default_rng(client).lognormal(0.0, 1.0)

  def dataset(self, client: str, seed: np.ndarray, batch_size: int) -> tf.data.Dataset:
    time.sleep(self.seconds(int(client)))
    return harness.client_dataset(0)


def load_waiting(scale: float) -> WaitingClients:
  return WaitingClients(scale)


def load(examples: int, marks: str = "", seconds: float = 0.0, batches: bool = False) -> Clients:
  return Clients(examples, marks, seconds, batches)
