"""The end of a run: exported models, summary.json and closing words, all of the same round."""

import math
import pathlib
from collections.abc import Mapping

import numpy as np

from experiments.runs import final_value, metric, reader
from experiments.runs.columns import CLIENT_EVAL, EVAL, PRIVACY, VALIDATION
from experiments.runs.folder import RunFolder
from experiments.training import export, private_run
from experiments.training.build import Experiment
from experiments.training.export import ExportedModel
from experiments.training.hooks.best_model import BestModel
from tff_momentum.processes.process import ProcessState
from tff_momentum.simulation.loop import Round, RoundEvaluation, StoredRound

# The contents of a run's folder, for the closing words.
PARTS = ("config.json", "metrics.csv", "summary.json", "tensorboard/", "checkpoints/", "model_best/",
         "model_last/")  # fmt: skip


def finish(folder: RunFolder, experiment: Experiment, state: ProcessState, best: BestModel) -> None:
  """Exports the models, then writes the summary: a folder with a summary is complete.

  Args:
    folder: the run's folder; the last row of its metrics.csv is that of `state`.
    experiment: what was trained.
    state: the last state.
    best: the best model so far, saved.
  """
  config, process = experiment.config, experiment.process
  if not config.output.lean and experiment.has_one_model:
    found = reader.read_metrics(folder.path / "metrics.csv")
    values, chosen = config.as_json(), best.best()
    export.export_both(
      folder.path,
      process.model,
      ExportedModel(process.weights(state), about(found, int(state.round), values)),
      chosen and ExportedModel(chosen.weights, about(found, chosen.round, values)),
    )
  folder.write_summary()
  print(closing_words(folder.path))
  if experiment.privacy is not None:
    print(private_run.words(config, experiment.privacy, int(state.round)))


def extra_columns(experiment: Experiment) -> RoundEvaluation:
  """What a run's rows have besides training and evaluation: clients' own data, and the privacy spent."""

  def columns(stored: StoredRound) -> dict[str, float]:
    row = experiment.client_evaluation(stored) if experiment.client_evaluation else {}
    if experiment.privacy is not None:
      row[PRIVACY] = experiment.privacy.epsilon(stored.round + 1)
    return row

  return columns


def end_at_checkpoint(
  folder: RunFolder,
  experiment: Experiment,
  header: list[str],
  stored: StoredRound,
  best: BestModel,
) -> None:
  """Finishes a run at its checkpoint, as if that had been its last round from the start.

  A killed run has rows of rounds after its checkpoint. Its models are those of the checkpoint, so the rows
  are deleted; if the run is continued later, it computes the same rows again. The last round of a run is
  always evaluated.

  Args:
    folder: the run's folder.
    experiment: what was trained.
    header: the columns of metrics.csv.
    stored: the last round of the checkpoint.
    best: the best model up to the checkpoint.

  Raises:
    ValueError: metrics.csv has fewer rounds than the checkpoint.
  """
  state, rounds = stored.state, stored.round + 1
  folder.cut_metrics(header, rounds)
  row = reader.last_row(reader.read_metrics(folder.path / "metrics.csv"))
  values: dict[str, float] = {}
  if not any(name.startswith(EVAL) for name in row):
    values |= experiment.evaluate(stored)
  if experiment.client_evaluation and not any(name.startswith(CLIENT_EVAL) for name in row):
    values |= experiment.client_evaluation.measure(stored)
  if values:
    folder.amend_last_row(values)
  if experiment.has_one_model and any(name.startswith(EVAL) for name in values):
    finished = Round(rounds - 1, state, {**row, **values})
    best.after_round(finished)
    best.save(finished)
  finish(folder, experiment, state, best)


def about(found: reader.Columns, number: int, config: Mapping[str, object]) -> dict[str, object]:
  """The contents of about.json: a model's round, its evaluation in metrics.csv, and the configuration.

  Args:
    found: metrics.csv.
    number: the round after which the run had this model, from 1.
    config: the values of config.json.
  """
  row = {name: float(values[number - 1]) for name, values in found.items()}
  assert row["round"] == number, "metrics.csv has a row for every round"
  evaluation = {
    name: value if math.isfinite(value) else None
    for name, value in row.items()
    if name.startswith((EVAL, VALIDATION))
  }
  ranked_by = metric.tuning_metric(evaluation)
  return {
    "round": number,
    "metric": ranked_by and ranked_by.column,
    "score": evaluation[ranked_by.column] if ranked_by else None,
    "evaluation": evaluation,
    **config,
  }


def closing_words(folder: pathlib.Path) -> str:
  """The run's final value, its last evaluation, and the contents of its folder."""
  found = reader.read_metrics(folder / "metrics.csv")
  rounds = len(found["round"])
  ranked_by = metric.main_metric(reader.evaluated(found))
  said = f"Finished {rounds} rounds."
  if ranked_by is not None:
    value = final_value.final_value(found, ranked_by.column)
    over = final_value.window(rounds)
    said += (
      f" Final {ranked_by.data} {ranked_by.name} {value:.4g}, the mean over the last {over} rounds;"
    )
    said += f" last evaluation: {_last_evaluation(found)}."
  there = ", ".join(name for name in PARTS if (folder / name).exists())
  return f"{said}\nThe run's folder is {folder}, with {there}."


def divergence_message(folder: pathlib.Path, rounds: int) -> str:
  """Why the run was stopped, and what to do."""
  return (
    f"{folder} diverged in round {rounds}: its loss or all client updates were not finite. Lower the "
    "learning rates; --nostop_on_divergence continues regardless."
  )


def _last_evaluation(found: reader.Columns) -> str:
  names = [name for name in found if name in reader.evaluated(found)]
  last = {name: found[name][~np.isnan(found[name])][-1] for name in names}
  return ", ".join(f"{name.removeprefix(EVAL)} {value:.4g}" for name, value in last.items())
