"""The progress bar: rounds, rounds per second, the training loss and the last evaluation."""

from collections.abc import Mapping

import tqdm

from tff_momentum.simulation.loop import Round
from tff_momentum.simulation.trainer import Hook


class ProgressBar(Hook):
  """Shows a progress bar on stderr."""

  def __init__(self, description: str, total_rounds: int, first_round: int = 0):
    """Takes the text before the bar, the number of all rounds, and the rounds already done."""
    self._description, self._total, self._first = description, total_rounds, first_round

  def start(self) -> None:
    """Draws the bar."""
    self._bar = tqdm.tqdm(
      total=self._total, initial=self._first, desc=self._description, unit="round"
    )

  def after_round(self, finished: Round) -> None:
    """Advances the bar by one round."""
    self._bar.set_postfix_str(_headline(finished.row), refresh=False)
    self._bar.update()

  def end(self) -> None:
    """Leaves the bar as it is and moves on to the next line."""
    self._bar.close()


def _headline(row: Mapping[str, float]) -> str:
  shown = [f"loss {row['train/loss']:.4g}"] if "train/loss" in row else ["skipped"]
  shown += [
    f"{name.removeprefix('eval/')} {value:.4g}"
    for name, value in row.items()
    if name.startswith("eval/") and name != "eval/loss"
  ]
  return ", ".join(shown)
