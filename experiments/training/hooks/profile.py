"""Traces some rounds for TensorBoard's profiler."""

import importlib.util
import pathlib
import sys

import tensorflow as tf

from tff_momentum.simulation.loop import Round
from tff_momentum.simulation.trainer import Hook

PLUGIN = "tensorboard_plugin_profile"
ADVICE = (
  "--profile records the trace without any extra package; to view it, TensorBoard needs its profile plugin: "
  "pip install tensorboard-plugin-profile==2.14.0 (the extra `profile` of this project)."
)


class Profile(Hook):
  """Traces the second round of this process and those after it.

  The first round builds and optimises graphs, which would hide what a round costs.
  """

  def __init__(self, folder: pathlib.Path, rounds: int):
    """Takes the folder of TensorBoard's files and the number of rounds to trace."""
    self._folder, self._rounds = folder, rounds
    self._finished, self._tracing = 0, False

  def start(self) -> None:
    """Says how to view the trace if TensorBoard's plugin is missing."""
    if importlib.util.find_spec(PLUGIN) is None:
      print(ADVICE, file=sys.stderr)

  def after_round(self, finished: Round) -> None:
    """Starts the trace after the first round and ends it after the last that is traced."""
    self._finished += 1
    if self._finished == 1:
      tf.profiler.experimental.start(str(self._folder))
      self._tracing = True
    elif self._finished == 1 + self._rounds:
      self.end()

  def end(self) -> None:
    """Ends the trace if one is running."""
    if self._tracing:
      tf.profiler.experimental.stop()
      self._tracing = False
