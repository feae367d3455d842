"""MLflow: the rows of metrics.csv as metrics, with the values of config.json as parameters.

The column `train/loss` is the metric `train.loss`.

Its own environment variables choose where: MLFLOW_TRACKING_URI (default: the folder `mlruns` of the working
directory) and MLFLOW_EXPERIMENT_NAME (default: tff_momentum). A resumed run continues the same tracked run,
wherever that is.
"""

import os
import pathlib
import time
from collections.abc import Iterator, Mapping

import mlflow
from mlflow.entities import Metric, Param

from experiments.runs import tracked_runs
from experiments.training.hooks.tracker import Tracker
from tff_momentum.simulation.loop import Round

EXPERIMENT = "tff_momentum"
_STATUS = {"finished": "FINISHED", "diverged": "FAILED", "stopped": "KILLED"}
_LONGEST = 500  # characters of a parameter's value that every store accepts
_BATCH = 100  # parameters in one request


class MlflowTracker(Tracker):
  """Writes to one run of MLflow."""

  title = "MLflow"

  def __init__(self, folder: pathlib.Path, config: Mapping[str, object], total_rounds: int):
    """Starts or continues the tracked run.

    Args:
      folder: the run's folder.
      config: the values of config.json.
      total_rounds: the number of all rounds.

    Raises:
      ValueError: MLflow cannot start, for example because its server does not answer.
    """
    super().__init__(total_rounds)
    noted = tracked_runs.read(folder, "mlflow")
    uri = noted.get("tracking_uri") or _absolute(mlflow.get_tracking_uri())
    try:
      self._client = mlflow.MlflowClient(uri)
      self._id = noted.get("run_id") or self._new_run(folder, config)
      self._client.update_run(self._id, status="RUNNING")
    except Exception as error:
      raise ValueError(
        f"MLflow does not start with {uri}: {' '.join(str(error).split())[:300]} Set MLFLOW_TRACKING_URI, or "
        f"remove {folder / tracked_runs.FILE} to start a new tracked run."
      ) from None
    tracked_runs.write(folder, "mlflow", {"run_id": self._id, "tracking_uri": uri})

  def _new_run(self, folder: pathlib.Path, config: Mapping[str, object]) -> str:
    name = os.environ.get("MLFLOW_EXPERIMENT_NAME", EXPERIMENT)
    experiment = self._client.get_experiment_by_name(name)
    number = experiment.experiment_id if experiment else self._client.create_experiment(name)
    made = self._client.create_run(number, run_name=folder.name).info.run_id
    parameters = [Param(name, value[:_LONGEST]) for name, value in _flat(config)]
    for start in range(0, len(parameters), _BATCH):
      self._client.log_batch(made, params=parameters[start : start + _BATCH])
    return made

  def send(self, finished: Round) -> None:
    """Sends the row; a round that ran again after a resume has the same values."""
    now, step = int(time.time() * 1000), int(finished.row["round"])
    # With dots: in MLflow's folders, `clients` could not be a file beside the folder of `clients/non_finite`.
    metrics = [
      Metric(name.replace("/", "."), float(value), now, step)
      for name, value in finished.row.items()
      if name != "round"
    ]
    self._client.log_batch(self._id, metrics=metrics)

  def close(self, outcome: str) -> None:
    """Ends the tracked run with its status."""
    self._client.set_terminated(self._id, status=_STATUS[outcome])


def _absolute(uri: str) -> str:
  """The address of a store, from any working directory."""
  return uri if ":" in uri else pathlib.Path(uri).resolve().as_uri()


def _flat(values: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, str]]:
  """The values by name, as in `hyperparameters.beta`."""
  for name, value in values.items():
    if isinstance(value, Mapping):
      yield from _flat(value, f"{prefix}{name}.")
    else:
      yield f"{prefix}{name}", str(value)
