"""experiments/plot.py: curves of runs, client drift, and its error messages."""

import numpy as np
import pytest

from experiments import plot
from experiments.plots import curves, drift_surface
from tests.helpers.report_runs import write_run
from tff_momentum.runtime import set_execution_context


def test_a_curve_has_the_finite_values_of_a_column_and_its_label(tmp_path):
  folder = write_run(tmp_path, "fedavg", [0.1, None, 0.3])
  curve = curves.read(f"β = 0.9={folder}", "eval/accuracy")
  assert curve.label == "β = 0.9"
  np.testing.assert_array_equal(curve.rounds, [1, 3])
  np.testing.assert_array_equal(curve.values, [0.1, 0.3])
  assert curves.read(str(folder), "eval/accuracy").label == folder.name


def test_runs_with_the_same_label_share_a_colour_and_a_place_in_the_legend(tmp_path):
  folders = [write_run(tmp_path, "fedavg", [0.1, 0.2], seed=seed) for seed in (1, 2)]
  lines = [
    curves.read(f"{label}={folders[i]}", "eval/accuracy")
    for label, i in (("a", 0), ("a", 1), ("b", 0))
  ]
  axes = curves.draw(lines, "eval/accuracy", "title", log=False).axes[0]
  first, second, third = (line.get_color() for line in axes.get_lines())
  assert first == second != third
  assert [text.get_text() for text in axes.get_legend().get_texts()] == ["a", "b"]


def test_curves_writes_a_picture(tmp_path, capsys):
  folder, picture = write_run(tmp_path, "fedavg", [0.1, 0.2]), tmp_path / "curves.png"
  assert plot.main(["curves", str(folder), "--column=eval/accuracy", f"--output={picture}"]) == 0
  assert picture.read_bytes().startswith(b"\x89PNG")
  assert capsys.readouterr().out.strip() == str(picture)


@pytest.mark.parametrize(
  ("arguments", "message"),
  [
    (["curves", "{run}", "--column=eval/acc"], "no column eval/acc; it has round"),
    (["curves", "{run}/none", "--column=eval/accuracy"], "expected a run folder"),
    (["drift_surface", "scafold"], "did you mean scaffold"),
  ],
)
def test_invalid_arguments_exit_with_one_sentence(arguments, message, tmp_path, capsys):
  folder = write_run(tmp_path, "fedavg", [0.1, 0.2])
  given = [text.replace("{run}", str(folder)) for text in arguments]
  assert plot.main([*given, f"--output={tmp_path / 'plot.png'}"]) == 2
  error = capsys.readouterr().err
  assert error.startswith("plot.py: ")
  assert message in error
  assert error.count("\n") == 1
  assert not (tmp_path / "plot.png").exists()


def test_scaffold_ends_closer_to_the_optimum_than_fedavg(tmp_path):
  set_execution_context("inprocess")
  paths = {name: drift_surface.train(name, 0.15, 6, 12) for name in ("fedavg", "scaffold")}
  for path in paths.values():
    assert len(path.server) == 13
    assert len(path.local) == 24
    assert all(len(local) == 7 for local in path.local)
  fedavg, scaffold = (
    np.linalg.norm(path.server[-1] - drift_surface.OPTIMUM) for path in paths.values()
  )
  assert scaffold < 0.1 * fedavg
  drift_surface.draw(paths).savefig(tmp_path / "drift.png")
  assert (tmp_path / "drift.png").stat().st_size > 5000
