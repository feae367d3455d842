"""The trainer: when hooks are called, how they stop training, and a custom hook on a custom process."""

import numpy as np
import pytest
import tensorflow as tf

from tff_momentum import algorithms
from tff_momentum.models.keras import from_keras
from tff_momentum.processes.process import build_process
from tff_momentum.simulation import loop
from tff_momentum.simulation.loop import Round
from tff_momentum.simulation.trainer import Hook, train


def rounds(count, first=0):
  return (Round(t, None, {"train/loss": 1.0 / (t + 1)}) for t in range(first, count))


class Recorder(Hook):
  """Writes down what it is called with; stops after a round, or fails in it."""

  def __init__(self, name="", log=None, stop_after=None, fail_in=None):
    self.name, self.log = name, [] if log is None else log
    self.stop_after, self.fail_in = stop_after, fail_in

  def start(self):
    self.log.append(f"{self.name}start")

  def after_round(self, finished):
    self.log.append(f"{self.name}{finished.number}")
    if finished.number == self.fail_in:
      raise RuntimeError("no more disk")
    return finished.number == self.stop_after

  def save(self, finished):
    self.log.append(f"{self.name}save {finished.number}")

  def end(self):
    self.log.append(f"{self.name}end")


def test_hooks_are_called_in_order_and_ended_in_reverse_order():
  log = []
  last = train(rounds(1), [Recorder("a ", log), Recorder("b ", log)])
  assert last.number == 0
  assert log == ["a start", "b start", "a 0", "b 0", "a save 0", "b save 0", "b end", "a end"]


@pytest.mark.parametrize(
  ("first", "count", "period", "saved"),
  [
    (0, 6, 2, [1, 3, 5]),
    (0, 5, 2, [1, 3, 4]),  # and after the last round
    (3, 7, 5, [4, 6]),  # rounds count from the very first, not from where training resumed
    (0, 3, None, [2]),
  ],
)
def test_saving_every_few_rounds_and_once_after_the_last(first, count, period, saved):
  hook = Recorder()
  train(rounds(count, first), [hook], rounds_per_save=period)
  assert [line for line in hook.log if "save" in line] == [f"save {number}" for number in saved]


def test_a_hook_stops_training_and_the_others_still_see_and_save_the_round():
  log = []
  last = train(rounds(9), [Recorder("a ", log, stop_after=1), Recorder("b ", log)])
  assert last.number == 1
  assert log[-6:] == ["a 1", "b 1", "a save 1", "b save 1", "b end", "a end"]


def test_hooks_are_ended_if_training_fails():
  log = []
  with pytest.raises(RuntimeError, match="no more disk"):
    train(rounds(9), [Recorder("a ", log), Recorder("b ", log, fail_in=1)])
  assert log[-4:] == ["a 1", "b 1", "b end", "a end"]
  assert not [line for line in log if "save" in line]


def test_a_hook_that_fails_to_start_is_not_ended():
  class Broken(Hook):
    def start(self):
      raise RuntimeError("no screen")

    def end(self):
      raise AssertionError

  log = []
  with pytest.raises(RuntimeError, match="no screen"):
    train(rounds(1), [Recorder("a ", log), Broken()])
  assert log == ["a start", "a end"]


def test_nothing_to_run():
  hook = Recorder()
  assert train(rounds(0), [hook]) is None
  assert hook.log == ["start", "end"]
  with pytest.raises(ValueError, match="rounds_per_save"):
    train(rounds(1), rounds_per_save=0)


# Research code: a process, a task and a hook of one's own.


class Line:
  """Three clients with points on y = 2x."""

  clients = ("a", "b", "c")

  @staticmethod
  def dataset(client, seed, batch_size):
    x = tf.constant([[1.0], [2.0], [3.0]]) + Line.clients.index(client)
    return tf.data.Dataset.from_tensor_slices((x, 2 * x)).batch(batch_size)

  @staticmethod
  def evaluation(batch_size):
    x = tf.constant([[1.0], [2.0]])
    return tf.data.Dataset.from_tensor_slices((x, 2 * x)).batch(batch_size)


class StopAtSlope(Hook):
  """Follows the only weight of the model and stops when it is close to a slope."""

  def __init__(self, process, slope):
    self.process, self.slope, self.path = process, slope, []

  def after_round(self, finished):
    (weight,) = self.process.weights(finished.state)
    self.path.append(float(np.squeeze(weight)))
    return abs(self.path[-1] - self.slope) < 0.01


def test_a_hook_of_ones_own_on_ones_own_process():
  model = from_keras(
    lambda: tf.keras.Sequential([tf.keras.layers.Dense(1, use_bias=False, input_shape=[1])]),
    loss=lambda y, p: tf.reduce_mean((y - p) ** 2),
    batch_spec=(tf.TensorSpec([None, 1]), tf.TensorSpec([None, 1])),
  )
  process = build_process(algorithms.fedavg(client_learning_rate=0.01), model)
  hook = StopAtSlope(process, 2.0)
  last = train(loop.rounds(process, Line, total_rounds=500, clients_per_round=2), [hook])
  assert last.number + 1 == len(hook.path) < 500
  assert hook.path[-1] == pytest.approx(2.0, abs=0.01)
