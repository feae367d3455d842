"""The hooks of a run, without a run."""

import os
import signal

import numpy as np
import pytest

from experiments.cli import interrupts
from experiments.training.hooks.best_model import BestModel
from experiments.training.hooks.divergence import StopOnDivergence
from experiments.training.hooks.interruption import StopOnSignal
from experiments.training.hooks.progress_bar import ProgressBar
from tff_momentum.simulation.loop import Round
from tff_momentum.simulation.trainer import train


def rounds(rows):
  """Rounds with these rows; the state after round t is t."""
  return (Round(t, t, row) for t, row in enumerate(rows))


def weights(state):
  return [np.full(2, float(state))]


@pytest.mark.parametrize(
  ("rows", "best"),
  [
    ([{"eval/accuracy": a, "eval/loss": 1.0} for a in (0.1, 0.9, 0.5)], 1),
    ([{"eval/loss": loss, "eval/r2": 0.5} for loss in (3.0, 2.0, 1.0)], 2),
    ([{"eval/recall_at_5": 0.9, "eval/loss": 2.0}, {"eval/recall_at_5": 0.1, "eval/loss": 1.0}], 0),
    ([{"eval/loss": 1.0}, {"train/loss": 0.1, "train/accuracy": 1.0}], 0),  # not evaluated
    ([{"eval/loss": np.nan}, {"eval/loss": 2.0}], 1),
  ],
)
def test_the_best_model_is_that_of_the_best_evaluation(tmp_path, rows, best):
  hook = BestModel(tmp_path / "run", weights)
  assert hook.best() is None
  train(rounds(rows), [hook])
  found = hook.best()
  assert found.round == best + 1
  np.testing.assert_array_equal(found.weights, weights(best))


def test_a_resumed_run_keeps_a_better_model_of_before(tmp_path):
  train(rounds([{"eval/loss": 1.0}]), [BestModel(tmp_path, weights)])
  again = BestModel(tmp_path, lambda state: [np.array([9.0])], rounds=1)
  train((Round(1, None, {"eval/loss": 2.0}),), [again])
  np.testing.assert_array_equal(again.best().weights, weights(0))
  train((Round(2, None, {"eval/loss": 0.5}),), [again])
  assert again.best().round == 3
  np.testing.assert_array_equal(again.best().weights, [[9.0]])


def test_a_run_that_resumes_from_before_its_best_round_forgets_that_round(tmp_path):
  """A kill between the best model's file and the checkpoint, or a damaged checkpoint, leaves such a file."""
  losses = [3.0, 2.0, 2.5, 1.0]
  rows = [{"eval/loss": loss} for loss in losses]
  train(rounds(rows), [BestModel(tmp_path, weights)], rounds_per_save=2)
  assert BestModel(tmp_path, weights, rounds=4).best().round == 4
  resumed = BestModel(tmp_path, weights, rounds=2)
  assert resumed.best().round == 2
  np.testing.assert_array_equal(resumed.best().weights, weights(1))
  train((Round(2, 2, rows[2]),), [resumed])
  assert resumed.best().round == 2


def test_only_the_best_models_that_a_checkpoint_needs_are_kept(tmp_path):
  def with_checkpoints():
    for t in range(8):
      yield Round(t, t, {"eval/loss": 1.0 / (t + 1)})
      for old in tmp_path.glob("0*"):
        if int(old.name) < t:
          old.rmdir()
      (tmp_path / f"{t + 1:08d}").mkdir()

  train(with_checkpoints(), [BestModel(tmp_path, weights)], rounds_per_save=1)
  kept = sorted(int(path.stem) for path in (tmp_path / "best").iterdir())
  assert kept == [6, 7, 8]
  for rounds_before in (8, 7, 6):
    assert BestModel(tmp_path, weights, rounds=rounds_before).best().round == rounds_before


def test_divergence_stops_training():
  hook = StopOnDivergence()
  last = train(rounds([{"train/loss": 1.0}, {"train/loss": np.inf}, {"train/loss": 1.0}]), [hook])
  assert (last.number, hook.diverged) == (1, True)


def test_a_signal_stops_training_after_the_round_and_only_a_third_one_at_once(capfd, monkeypatch):
  clock = iter(range(100))

  def interrupted(times, seconds=2):
    monkeypatch.setattr(interrupts.time, "monotonic", lambda: seconds * next(clock))
    for t in range(5):
      for _ in range(times if t == 2 else 0):
        os.kill(os.getpid(), signal.SIGTERM)
      yield Round(t, None, {})

  before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
  assert train(interrupted(1), [StopOnSignal()]).number == 2
  assert "Stopping after this round" in capfd.readouterr().err
  assert train(interrupted(2), [StopOnSignal()]).number == 2
  assert "a third interrupt stops immediately" in capfd.readouterr().err
  # GNU timeout signals twice within milliseconds: that is one interrupt.
  assert train(interrupted(9, seconds=0.01), [StopOnSignal()]).number == 2
  assert capfd.readouterr().err.count("\n") == 2

  def leave(code):
    raise SystemExit(code)

  monkeypatch.setattr(os, "_exit", leave)
  with pytest.raises(SystemExit, match="130"):
    train(interrupted(3), [StopOnSignal()])
  assert before == [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]


def test_the_progress_bar_shows_rounds_and_metrics(capfd):
  bar = ProgressBar("digits fedavg", total_rounds=4, first_round=1)
  train(
    rounds(
      [{"train/loss": 0.5}, {}, {"train/loss": 0.25, "eval/loss": 1.0, "eval/accuracy": 0.75}]
    ),
    [bar],
  )
  shown = capfd.readouterr().err
  assert "digits fedavg: 100%" in shown
  assert "4/4" in shown
  assert "loss 0.25, accuracy 0.75" in shown
