"""Groups runs into settings, the methods compared in each setting, and each method's configurations.

The runs of one configuration differ only in the seed. A method is an algorithm together with its non-numeric
hyperparameters, as in `fedgbo (optimizer=adam)`. Its numeric hyperparameters are tuned: the best
configuration represents the method.
"""

import dataclasses
import json
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import TypeVar

from experiments.cli.flags import TASK_FLAGS
from experiments.reports import measures
from experiments.reports.algorithm_names import spelled
from experiments.runs.metric import Metric
from experiments.runs.reader import Run
from tff_momentum.registry import ALGORITHMS, REFERENCE_LINES

SETTING = ("task", "data", "scale", "total_rounds", "clients_per_round", "client_epochs_per_round",
           "client_steps_per_round", "client_batch_size", "participation", "eval_examples",
           "tune_on")  # fmt: skip
# Flags of uneven clients. A run with other values counts as another method, so that both can be compared.
CIRCUMSTANCES = ("async", "max_staleness", "stale", "think_time", "availability", "day", "deadline",
                 "over_selection", "dropout_rate", "client_steps_law", "client_speed")  # fmt: skip

Value = str | int | float | bool | None  # a value of config.json that a report compares
_Item = TypeVar("_Item")
_Key = TypeVar("_Key", bound=Hashable)


@dataclasses.dataclass(frozen=True)
class Configuration:
  """Runs that differ only in the seed, and their numeric hyperparameters."""

  tuned: Mapping[str, Value]
  runs: Sequence[Run]

  @property
  def diverged(self) -> int:
    """The number of diverged runs."""
    return sum(run.diverged for run in self.runs)


@dataclasses.dataclass(frozen=True)
class Method:
  """An algorithm with its non-numeric hyperparameters; the `best` configuration represents it."""

  algo: str
  variant: int
  label: str
  configurations: Sequence[Configuration]
  best: Configuration

  @property
  def is_reference(self) -> bool:
    """Whether it is a reference line, which takes no part in the ranking."""
    return self.algo in REFERENCE_LINES


@dataclasses.dataclass(frozen=True)
class Setting:
  """A task and how it is run; the methods in a setting are comparable.

  Attributes:
    values: the values that make up the setting.
    label: its name.
    metric: the metric that ranks its methods.
    methods: the methods, made of finished runs only; empty if no run has finished.
    unfinished: the runs that have not finished.
  """

  values: Mapping[str, Value]
  label: str
  metric: Metric
  methods: Sequence[Method]
  unfinished: Sequence[Run] = ()

  @property
  def task(self) -> str:
    """The task."""
    return str(self.values["task"])

  @property
  def notes(self) -> list[str]:
    """The notes that every table and plot of this setting must show."""
    notes = ["synthetic data"] if self.values.get("data") == "synthetic" else []
    scale = self.values.get("scale")
    return notes + ([f"scaled down to {scale}"] if scale not in (None, 1, 1.0) else [])

  @property
  def subtitle(self) -> str:
    """The facts that a figure must show when it is used outside the report."""
    values, facts = self.values, []
    if "clients_per_round" in values:
      of_all = f" of {values['num_clients']}" if "num_clients" in values else ""
      facts.append(f"{values['clients_per_round']}{of_all} clients per round")
    facts += [
      f"{name} {shown(values[name])}" for name in ("model", "alpha", "similarity") if name in values
    ]
    for name, what in (
      ("client_epochs_per_round", "local epochs"),
      ("client_steps_per_round", "local steps"),
    ):
      facts += [f"{values[name]} {what}"] if name in values else []
    return " · ".join(facts)

  def method(self, label: str) -> Method | None:
    """The method with this label; None if there is none."""
    return next((method for method in self.methods if method.label == label), None)


def compare(runs: Sequence[Run], unfinished: Sequence[Run] = ()) -> tuple[list[Setting], list[str]]:
  """Groups the runs; returns the settings, and a sentence for each run that was left out.

  Args:
    runs: the finished runs.
    unfinished: the runs that have not finished; they belong to a setting, but to none of its methods.
  """
  everything = [*runs, *unfinished]
  keys = [_setting_values(run) for run in everything]
  by_seed = _details_from_seed(everything)
  for run, key in zip(everything, keys, strict=True):
    key.update(
      (name, value)
      for name, value in _details(run).items()
      if (run.config["task"], name) not in by_seed
    )
  settings, problems = [], []
  for indices in _group(range(len(everything)), lambda i: _frozen(keys[i])).values():
    members, repeated = _without_repeated_seeds([everything[i] for i in indices if i < len(runs)])
    going_on = [everything[i] for i in indices if i >= len(runs)]
    problems += repeated
    try:
      metric = measures.main_metric(members or going_on)
    except ValueError as error:
      problems += [f"{run.path}: {error}" for run in members]
      continue
    settings.append(Setting(keys[indices[0]], "", metric, _methods(members, metric), going_on))
  settings.sort(key=lambda setting: [str(value) for value in setting.values.values()])
  return [dataclasses.replace(s, label=_setting_label(s, settings)) for s in settings], problems


def shown(value: Value) -> str:
  """A value without trailing zeros: 10000 and 0 instead of 10000.0 and 0.0."""
  return f"{value:.10g}" if isinstance(value, float) else str(value)


def varying(dicts: Sequence[Mapping[str, Value]]) -> list[str]:
  """The names whose values differ between the mappings."""
  names = dict.fromkeys(name for values in dicts for name in values)
  return [name for name in names if len({_frozen(values.get(name)) for values in dicts}) > 1]


def by_task(settings: Sequence[Setting]) -> list[list[Setting]]:
  """Groups settings with the same task, the same kind of data and the same metric."""
  groups = _group(settings, lambda s: (s.task, s.values.get("data"), s.metric))
  return list(groups.values())


def sorted_values(values: Sequence[Value]) -> list[Value]:
  """The distinct values of an axis: numbers in order, then texts, then None for the default."""
  distinct = [value for i, value in enumerate(values) if value not in values[:i]]
  numbers = sorted(v for v in distinct if isinstance(v, int | float))
  texts = sorted((v for v in distinct if v is not None and v not in numbers), key=str)
  return [*numbers, *texts, *([None] if None in distinct else [])]


def _setting_values(run: Run) -> dict[str, Value]:
  found = {name: run.config[name] for name in SETTING if run.config.get(name) is not None}
  if run.config.get("client_eval_period"):  # clients then train on four fifths of their examples
    found["client_eval"] = True
  return found


def _details(run: Run) -> dict[str, Value]:
  return {
    name: value
    for name, value in run.config.get("task_details", {}).items()
    if isinstance(value, str | int | float)
  }


def _details_from_seed(runs: Sequence[Run]) -> set[tuple[str, str]]:
  """The (task, detail) pairs whose value depends on the seed: constants of a random problem, not settings."""
  found = set()
  for task, members in _group(runs, lambda run: run.config["task"]).items():
    for name in {name for run in members for name in _details(run)} - set(TASK_FLAGS):
      by_seed = _group(members, lambda run: run.config["seed"])
      values = [{_frozen(_details(run).get(name)) for run in same} for same in by_seed.values()]
      if all(len(v) == 1 for v in values) and len(set.union(*values)) > 1:
        found.add((task, name))
  return found


def _methods(runs: Sequence[Run], metric: Metric) -> list[Method]:
  methods = []
  for algo, members in _group(runs, lambda run: run.config["algo"]).items():
    shown = varying([_non_numeric(run) for run in members])
    groups = _group(members, lambda run: _frozen(_non_numeric(run)))
    for variant, same in enumerate(groups.values()):
      configurations = [
        Configuration(
          _tuned(configuration[0]), sorted(configuration, key=lambda run: run.config["seed"])
        )
        for configuration in _group(same, lambda run: _frozen(_tuned(run))).values()
      ]
      chosen = {name: _non_numeric(same[0]).get(name, "default") for name in shown}
      label = spelled(algo)
      if chosen:
        label += f" ({', '.join(f'{k}={v}' for k, v in chosen.items())})"
      best = min(
        configurations, key=lambda configuration: measures.tuning_rank(configuration.runs, metric)
      )
      methods.append(Method(algo, variant, label, configurations, best))
  return sorted(methods, key=catalogue_order)


def catalogue_order(method: Method) -> tuple[int, str, int]:
  """A sort key: the order of the registry of algorithms; unknown algorithms come last."""
  known = list(ALGORITHMS)
  place = known.index(method.algo) if method.algo in known else len(known)
  return place, method.algo, method.variant


def _is_non_numeric(name: str, value: Value) -> bool:
  """Whether a value is non-numeric and defines another method; a learning rate schedule is tuned instead."""
  return isinstance(value, bool | str) and not name.endswith("learning_rate")


def _non_numeric(run: Run) -> dict[str, Value]:
  given = run.config.get("hyperparameters", {})
  algo = run.config["algo"]
  defaults = ALGORITHMS[algo].hyperparameters if algo in ALGORITHMS else {}
  words = {
    name: value
    for name, value in given.items()
    if _is_non_numeric(name, value) and value != defaults.get(name)
  }
  for name in ("compression", "transform", "aggregator", *CIRCUMSTANCES):
    if run.config.get(name):
      words[name] = run.config[name]
  return words


def _tuned(run: Run) -> dict[str, Value]:
  given = run.config.get("hyperparameters", {})
  tuned = {name: value for name, value in given.items() if not _is_non_numeric(name, value)}
  if run.config.get("weight_decay"):
    tuned["weight_decay"] = run.config["weight_decay"]
  if run.config.get("client_clip_norm"):
    tuned["client_clip_norm"] = run.config["client_clip_norm"]
  return tuned


def _without_repeated_seeds(runs: Sequence[Run]) -> tuple[list[Run], list[str]]:
  first: dict[Hashable, Run] = {}
  problems = []
  for run in runs:
    same = first.setdefault(
      _frozen([run.config["algo"], _non_numeric(run), _tuned(run), run.config["seed"]]), run
    )
    if same is not run:
      problems.append(
        f"{run.path}: the same run with the same seed as {same.path}; only the latter is used."
      )
  return list(first.values()), problems


def _setting_label(setting: Setting, settings: Sequence[Setting]) -> str:
  same_task = [s.values for s in settings if s.task == setting.task]
  differing = [name for name in varying(same_task) if name != "data" and name in setting.values]
  return ", ".join([setting.task, *(f"{name}={shown(setting.values[name])}" for name in differing)])


def _frozen(value: object) -> str:
  return json.dumps(value, sort_keys=True, default=str)


def _group(items: Iterable[_Item], key: Callable[[_Item], _Key]) -> dict[_Key, list[_Item]]:
  groups: dict[_Key, list[_Item]] = {}
  for item in items:
    groups.setdefault(key(item), []).append(item)
  return groups
