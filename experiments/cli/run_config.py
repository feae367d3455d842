"""Every value of a run, resolved: made once, after the task is loaded, and the same until the run ends.

`config.json` is written from it; `experiments/runs/reader.py` reads it back.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from experiments.cli import derived_rates, references, scale, uneven_clients
from experiments.cli.assignments import settable
from experiments.cli.client_eval import ClientEvalOptions
from experiments.cli.derived_rates import DerivedRates
from experiments.cli.diagnostics import DiagnosticsOptions
from experiments.cli.run_request import OutputOptions, RunRequest, RuntimeOptions
from experiments.cli.uneven_clients import UnevenClients
from experiments.runs.versions import versions
from tff_momentum import aggregator_options, privacy, user_code
from tff_momentum.default_rates import LocalSgd
from tff_momentum.simulation import distributions

if TYPE_CHECKING:
  from tasks.task import Task

COUNTED_CLIENTS = 32  # to estimate the local steps of an average client


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunConfig:
  """The configuration of a run.

  Attributes:
    task: the name of the task.
    algo: the name of the algorithm.
    experiment_name: the name of the run's folder.
    preset: the preset that the flags came from.
    scale: the factor by which rounds, cohort and test data were reduced; None for full size.
    seed: the seed of everything random.
    total_rounds: the number of rounds.
    clients_per_round: the number of clients in a cohort.
    client_epochs_per_round: passes over a client's data; None if steps are given.
    client_steps_per_round: local steps; None if epochs are given.
    client_batch_size: examples in a local step's batch.
    steps_per_round: the gradient steps of a round of centralised training; None for all others.
    weight_decay: λ of the weight decay.
    client_clip_norm: the largest norm of a local gradient; None for no clipping.
    compression: of the uploads, as in "qsgd:4"; None for none.
    transform: changes to the algorithm, as in "fedinit+fedexp"; None for none.
    aggregator: what takes the place of the mean, as in "clip(norm=1.0)"; None for the mean.
    privacy_delta: δ of the (ε, δ) that the run reports; None without differential privacy.
    non_finite: what happens to updates that are not finite: "reject", "zero" or "fatal".
    num_clients: the number of training clients.
    uneven: how clients differ.
    diagnostics: what is measured besides.
    rounds_per_eval: number of rounds between evaluations.
    eval_examples: number of test examples to evaluate on; None for all.
    client_eval: how the model is evaluated on clients' own data.
    tune_on: what hyperparameters and the best model are chosen by: "validation" or "test".
    validation_clients: the ids of the held-out clients; empty with "test".
    runtime: where computations run.
    data: "embedded", "real" or "synthetic".
    hyperparameters: every hyperparameter of the algorithm: given, derived from the task, or its default.
    derived: which of them were derived, and why; not in config.json.
    task_details: what the task says of itself.
    versions: of Python, packages and this repository.
    output: what the run writes and shows; not in config.json.
  """

  task: str
  algo: str
  experiment_name: str
  preset: str | None
  scale: float | None
  seed: int
  total_rounds: int
  clients_per_round: int
  client_epochs_per_round: int | None
  client_steps_per_round: int | None
  client_batch_size: int
  steps_per_round: int | None
  weight_decay: float
  client_clip_norm: float | None
  compression: str | None
  transform: str | None
  aggregator: str | None
  privacy_delta: float | None
  non_finite: str
  num_clients: int
  uneven: UnevenClients
  diagnostics: DiagnosticsOptions
  rounds_per_eval: int
  eval_examples: int | None
  client_eval: ClientEvalOptions
  tune_on: str
  validation_clients: Sequence[str]
  runtime: RuntimeOptions
  data: str
  hyperparameters: Mapping[str, object]
  task_details: Mapping[str, object]
  versions: Mapping[str, str]
  output: OutputOptions
  derived: DerivedRates

  def as_json(self) -> dict[str, object]:
    """The values for config.json, under the names of their flags."""
    return {
      "task": self.task,
      "algo": self.algo,
      "experiment_name": self.experiment_name,
      "preset": self.preset,
      "scale": self.scale,
      "seed": self.seed,
      "total_rounds": self.total_rounds,
      "clients_per_round": self.clients_per_round,
      "client_epochs_per_round": self.client_epochs_per_round,
      "client_steps_per_round": self.client_steps_per_round,
      "client_batch_size": self.client_batch_size,
      "steps_per_round": self.steps_per_round,
      "weight_decay": self.weight_decay,
      "client_clip_norm": self.client_clip_norm,
      "compression": self.compression,
      "transform": self.transform,
      "aggregator": self.aggregator,
      "privacy_delta": self.privacy_delta,
      "non_finite": self.non_finite,
      "num_clients": self.num_clients,
      **self.uneven.as_json(),
      **self.diagnostics.as_json(),
      "rounds_per_eval": self.rounds_per_eval,
      "eval_examples": self.eval_examples,
      **self.client_eval.as_json(),
      "tune_on": self.tune_on,
      "validation_clients": list(self.validation_clients),
      "runtime": self.runtime.name,
      "devices": self.runtime.devices,
      "max_clients_in_flight": self.runtime.max_clients_in_flight,
      "tf32": "on" if self.runtime.tf32 else "off",
      "deterministic": self.runtime.deterministic,
      "gpu_convolutions": self.runtime.gpu_convolutions,
      "gpu_recurrent": self.runtime.gpu_recurrent,
      "data": self.data,
      "hyperparameters": dict(self.hyperparameters),
      "task_details": dict(self.task_details),
      "versions": dict(self.versions),
    }


def resolve(request: RunRequest, task: "Task", validation_clients: Sequence[str] = ()) -> RunConfig:
  """Resolves what a command line asks for: the task's defaults take the place of what was not given.

  Args:
    request: the command line.
    task: the task, without the held-out clients.
    validation_clients: the held-out clients. A cohort that would need them is reduced to all other clients.
  """
  defaults = task.defaults
  epochs = request.client_epochs_per_round or defaults.client_epochs_per_round
  fixed_steps = request.client_steps_per_round or request.uneven.client_steps_law
  clients_per_round = request.clients_per_round or min(
    scale.shrink("clients_per_round", defaults.clients_per_round, request.scale), len(task.clients)
  )
  if clients_per_round <= len(task.clients) + len(validation_clients):
    clients_per_round = min(clients_per_round, len(task.clients))
  batch_size = request.client_batch_size or defaults.client_batch_size
  steps = _usual_steps(request, task, epochs, batch_size)
  sgd = LocalSgd(defaults.client_learning_rate, steps)
  derived = derived_rates.derive(request.task, request.algo, sgd, request.hyperparameters)
  uneven = uneven_clients.with_think_time(
    request.uneven, steps, len(task.clients), clients_per_round
  )
  return RunConfig(
    task=request.task,
    algo=request.algo,
    experiment_name=request.experiment_name or default_name(request),
    preset=request.preset,
    scale=request.scale,
    seed=request.seed,
    total_rounds=request.total_rounds
    or scale.shrink("total_rounds", defaults.total_rounds, request.scale),
    clients_per_round=clients_per_round,
    client_epochs_per_round=None if fixed_steps else epochs,
    client_steps_per_round=request.client_steps_per_round,
    client_batch_size=batch_size,
    steps_per_round=max(1, round(clients_per_round * steps))
    if request.algo == references.CENTRALISED
    else None,
    weight_decay=request.weight_decay,
    client_clip_norm=request.client_clip_norm,
    compression=request.compression,
    transform=request.transform,
    aggregator=request.aggregator,
    privacy_delta=_delta(request.aggregator, len(task.clients)),
    non_finite=request.non_finite,
    num_clients=len(task.clients),
    uneven=uneven,
    diagnostics=request.diagnostics,
    rounds_per_eval=request.rounds_per_eval,
    eval_examples=eval_examples(task, request.eval_examples, request.scale),
    client_eval=request.client_eval,
    tune_on=request.tune_on,
    validation_clients=tuple(validation_clients),
    runtime=request.runtime,
    data=task.data,
    hyperparameters={**settable(request.algo), **derived.values, **request.hyperparameters},
    task_details=dict(task.details),
    versions=versions(),
    output=request.output,
    derived=derived,
  )


def default_name(request: RunRequest) -> str:
  """The name of the run's folder if none is given."""
  task, algo = user_code.plain_name(request.task), user_code.plain_name(request.algo)
  return f"{task}_{algo}_{request.seed}"


def _delta(aggregator: str | None, num_clients: int) -> float | None:
  """δ of a private mean; None for other aggregators."""
  found = aggregator_options.parse(aggregator) if aggregator else None
  if not isinstance(found, aggregator_options.PrivateMean):
    return None
  return privacy.default_delta(num_clients) if found.delta is None else found.delta


def _usual_steps(request: RunRequest, task: "Task", epochs: int, batch_size: int) -> float:
  """K, the local steps of an average client per round."""
  if request.client_steps_per_round:
    return float(request.client_steps_per_round)
  if request.uneven.client_steps_law:
    law = distributions.parse_integers("client_steps_law", request.uneven.client_steps_law)
    return distributions.mean(law)
  # Counted, not divided: the last batch is a smaller one, and a speech of Shakespeare's is several examples.
  count = min(len(task.clients), COUNTED_CLIENTS)
  some = [task.clients[i * len(task.clients) // count] for i in range(count)]
  batches = [_num_batches(task.dataset(c, np.zeros(2, np.int32), batch_size)) for c in some]
  if min(batches) < 0:  # unknown to tf.data
    return epochs * max(1.0, task.total_examples / len(task.clients) / batch_size)
  return epochs * max(1.0, sum(batches) / count)


def _num_batches(data: Any) -> int:
  """The number of a client's batches; negative if `tf.data` does not know it."""
  from tff_momentum.runtime import DataReference  # TensorFlow is loaded by now, with the task

  if isinstance(
    data, DataReference
  ):  # on Ray; the head has loaded the task, so it reads the data itself
    data = data.resolve()
  return int(data.cardinality())


def eval_examples(task: "Task", asked: int | None, factor: float | None) -> int | None:
  """The number of test examples to evaluate on; None for all.

  Args:
    task: the task.
    asked: the number that the flags ask for.
    factor: `--scale`, which reduces the test data if no number is given.
  """
  if asked is None and factor is None:
    return None
  available = int(task.evaluation(1).cardinality())  # negative if unknown
  wanted = asked or (
    scale.shrink("eval_examples", available, factor)
    if available >= 0
    else scale.AT_LEAST["eval_examples"]
  )
  return None if 0 <= available <= wanted else wanted
