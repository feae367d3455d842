"""The vocabulary of claims: settings, methods, panels of methods, claims, and the results of their runs."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence

import numpy as np

import tasks
from experiments.reports import measures
from experiments.runs.metric import Metric
from experiments.runs.reader import Run

RATES = ("0.01", "0.03", "0.1", "0.3")


@dataclasses.dataclass(frozen=True)
class TrialSetting:
  """A task and how it is run.

  Attributes:
    name: the prefix of the runs' folders.
    label: the name in figures and tables.
    task: the task.
    flags: the flags of every run, as `--name=value`.
    rounds: the number of rounds.
    grid: the values to tune for every method, by the name of a flag or hyperparameter.
    seeds: the seeds of the runs that count as results.
    last_rounds: the number of last rounds that the final value averages over, if the paper states it; by
      default that of `runs.final_value`.
  """

  name: str
  label: str
  task: str
  flags: tuple[str, ...]
  rounds: int
  grid: Mapping[str, tuple[str, ...]] = dataclasses.field(
    default_factory=lambda: {"client_learning_rate": RATES}
  )
  seeds: tuple[int, ...] = (1, 2, 3)
  last_rounds: int | None = None

  @property
  def needs_data(self) -> bool:
    """Whether the task reads a data set that is not embedded in this repository."""
    return "data_dir" in tasks.info(self.task).options


@dataclasses.dataclass(frozen=True)
class Arm:
  """A method: an algorithm, its fixed flags, and the values to tune in addition to the setting's grid."""

  label: str
  algo: str
  flags: tuple[str, ...] = ()
  grid: Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Panel:
  """The methods that are compared in one setting.

  Attributes:
    setting: the setting.
    arms: the methods.
    printed: the paper's own numbers by the method's label; its setting may differ.
  """

  setting: TrialSetting
  arms: tuple[Arm, ...]
  printed: Mapping[str, str] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Diagnostic:
  """A diagnostic of some of a panel's methods, which a claim draws against the rounds.

  Attributes:
    panel: the methods; their flags request the diagnostic.
    label: its name in figures and texts.
    column: the column of `metrics.csv`.
    over: the column to divide by, if any.
  """

  panel: Panel
  label: str
  column: str
  over: str = ""

  def of(self, run: Run) -> np.ndarray:
    """Its values by round, nan where it was not measured."""
    values = run.columns[self.column]
    return values / run.columns[self.over] if self.over else values

  def values(self, runs: Sequence[Run]) -> list[np.ndarray]:
    """Its measured values of each run."""
    return [found[np.isfinite(found)] for found in map(self.of, runs)]


@dataclasses.dataclass(frozen=True)
class Finding:
  """Whether one part of a claim holds, and the numbers that show it."""

  holds: bool
  text: str


@dataclasses.dataclass(frozen=True)
class Claim:
  """A claim of a paper.

  Attributes:
    name: the name on the command line.
    statement: the claim in one sentence.
    source: the paper's figure or table.
    panels: the experiments to run.
    expected: the parts of the claim, each as a function of the results.
    axes: the x axis of each panel's plot: rounds, bytes, upload, flops or virtual. `onto` draws the panel
      into the previous plot; `levels` draws the final values of all panels.
    checked: the checks behind a part that does not hold, and other caveats.
    cause: why only a part of it holds, in a few words; empty if all of it does.
    presets: the folder of the presets with the paper's own settings.
    diagnostics: more plots; their panels' methods are among those of `panels`.
  """

  name: str
  statement: str
  source: str
  panels: tuple[Panel, ...]
  expected: tuple[Callable[["Results"], Finding], ...]
  axes: tuple[str, ...] = ("rounds",)
  checked: str = ""
  cause: str = ""
  presets: str = ""
  diagnostics: tuple[Diagnostic, ...] = ()

  @property
  def needs_data(self) -> bool:
    """Whether one of its settings needs a data set that is not embedded."""
    return any(panel.setting.needs_data for panel in self.panels)


@dataclasses.dataclass(frozen=True)
class Results:
  """The results of panels, by (setting's name, method's label).

  Attributes:
    runs: one run per seed.
    tuned: the tuned values, as text by name.
    edges: the names of the tuned values that are at an end of their grid.
  """

  runs: Mapping[tuple[str, str], Sequence[Run]]
  tuned: Mapping[tuple[str, str], Mapping[str, str]]
  edges: Mapping[tuple[str, str], Sequence[str]]

  def of(self, panel: Panel, label: str) -> Sequence[Run]:
    """The runs of a method."""
    return self.runs[panel.setting.name, label]

  def final(self, panel: Panel, label: str) -> measures.Spread:
    """The final value of a method: mean and standard deviation over seeds."""
    return measures.final_spread(
      self.of(panel, label), self.metric(panel), panel.setting.last_rounds
    )

  def metric(self, panel: Panel) -> Metric:
    """The metric that compares a panel's methods."""
    return measures.main_metric([run for arm in panel.arms for run in self.of(panel, arm.label)])
