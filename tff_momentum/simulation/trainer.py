"""Trains round by round and calls hooks: what happens beside training, one concern each.

A hook of your own overrides the methods that it needs:

    class PrintLoss(Hook):
      def after_round(self, finished):
        print(finished.number + 1, finished.row["train/loss"])

    train(loop.rounds(process, task, total_rounds=100, clients_per_round=10), [PrintLoss()])

The hooks of run.py (progress bar, metrics.csv, TensorBoard, checkpoints and so on) are in
`experiments/training/hooks`.
"""

import contextlib
from collections.abc import Iterable, Sequence

from tff_momentum import validation
from tff_momentum.simulation.loop import Round


class Hook:
  """What happens beside training. Every method does nothing unless it is overridden."""

  def start(self) -> None:
    """Called once, before the first round."""

  def after_round(self, finished: Round) -> bool | None:
    """Called after every round.

    Args:
      finished: the round, with its row of metrics and the state after it.

    Returns:
      True to stop training after this round; the other hooks still see the round, and it is saved.
    """

  def save(self, finished: Round) -> None:
    """Called every `rounds_per_save` rounds and after the last: write to disk what must survive a crash.

    Args:
      finished: the round that was just finished.
    """

  def end(self) -> None:
    """Called once, after the last round; also if training fails."""


def train(
  rounds: Iterable[Round], hooks: Sequence[Hook] = (), *, rounds_per_save: int | None = None
) -> Round | None:
  """Runs rounds until there are no more or a hook stops training.

  Args:
    rounds: the rounds, as `loop.rounds` runs them.
    hooks: called in this order, and ended in reverse order. A hook that saves what refers to other files,
      such as a checkpoint that refers to a row of metrics, comes after the hooks that save those files.
    rounds_per_save: number of rounds between saves; by default hooks save only after the last round.

  Returns:
    The last round; None if there was none.

  >>> from tff_momentum.simulation.loop import Round
  >>> class StopAtLowLoss(Hook):
  ...   def after_round(self, finished):
  ...     return finished.row["train/loss"] < 0.3
  >>> rounds = (Round(t, None, {"train/loss": 1 / (t + 1)}) for t in range(100))
  >>> train(rounds, [StopAtLowLoss()]).row
  {'train/loss': 0.25}
  """
  if rounds_per_save is not None:
    validation.integer("rounds_per_save", rounds_per_save, at_least=1)
  finished, saved = None, True
  with contextlib.ExitStack() as ending:
    for hook in hooks:
      hook.start()
      ending.callback(hook.end)
    for finished in rounds:
      stops = [hook.after_round(finished) for hook in hooks]  # every hook sees the round
      stop = any(stops)
      saved = stop or (rounds_per_save is not None and (finished.number + 1) % rounds_per_save == 0)
      if saved:
        _save(finished, hooks)
      if stop:
        break
    if finished is not None and not saved:
      _save(finished, hooks)
  return finished


def _save(finished: Round, hooks: Sequence[Hook]) -> None:
  for hook in hooks:
    hook.save(finished)
