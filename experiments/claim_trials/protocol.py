"""How every claim is tried: the same grid for each method, tuned on one seed, judged on others.

Grid, rounds and seeds are written down before anything is run. Each method's grid is run with seed 0; the
point with the best final value runs again with the other seeds, and these alone are results.
"""

import dataclasses
import itertools
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tasks
from experiments.reports import measures
from experiments.runs import reader
from experiments.runs.metric import Metric
from experiments.runs.reader import Run
from experiments.sweeps.grids import Grid
from experiments.sweeps.local_pool import LocalPool
from experiments.sweeps.scheduler import Sweep
from experiments.sweeps.search_space import SearchSpace, SweepRun, runs_of

TUNING_SEED = 0
RATES = ("0.01", "0.03", "0.1", "0.3")
QUICK_SHARE = 10  # of the rounds, with --quick


@dataclasses.dataclass(frozen=True)
class TrialSetting:
  """A task and how it is run.

  Attributes:
    name: of its runs' folders.
    label: in figures and tables.
    task: the task.
    flags: of every run, as `--name=value`.
    rounds: how many.
    grid: what is tuned for every method, by the name of a flag or hyperparameter.
    seeds: of the runs that count.
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

  @property
  def needs_data(self) -> bool:
    """Whether it reads a data set that this repository does not carry."""
    return "data_dir" in tasks.info(self.task).options


@dataclasses.dataclass(frozen=True)
class Arm:
  """A method: an algorithm, what of it is fixed, and what is tuned beside the setting's grid."""

  label: str
  algo: str
  flags: tuple[str, ...] = ()
  grid: Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Panel:
  """Methods that are compared in one setting."""

  setting: TrialSetting
  arms: tuple[Arm, ...]


class Finding:
  """Whether a part of a claim was seen, and the numbers that say so."""

  def __init__(self, seen: Any, text: str):
    self.seen, self.text = bool(seen), text


@dataclasses.dataclass(frozen=True)
class Claim:
  """A claim of a paper.

  Attributes:
    name: to ask for it by.
    statement: the claim.
    source: the paper's figure or table.
    panels: what is run for it.
    expected: what should be seen if it holds, each as a function of the results.
    axes: what figures have as x, one for each panel: rounds, bytes, upload, flops or virtual; `onto` draws
      into the plot before, `levels` draws where methods end in all panels.
    checked: what was looked at before a part that was not seen was believed.
    presets: the folder of the paper's own settings.
  """

  name: str
  statement: str
  source: str
  panels: tuple[Panel, ...]
  expected: tuple[Callable[["Results"], Finding], ...]
  axes: tuple[str, ...] = ("rounds",)
  checked: str = ""
  presets: str = ""


@dataclasses.dataclass(frozen=True)
class Results:
  """What the runs of some panels came to, by (setting's name, method's label).

  Attributes:
    runs: one for each seed.
    tuned: what the grid was tuned to, as written.
    edges: names of tuned values at an end of their grid.
  """

  runs: Mapping[tuple[str, str], Sequence[Run]]
  tuned: Mapping[tuple[str, str], Mapping[str, str]]
  edges: Mapping[tuple[str, str], Sequence[str]]

  def of(self, panel: Panel, label: str) -> Sequence[Run]:
    """A method's runs."""
    return self.runs[panel.setting.name, label]

  def metric(self, panel: Panel) -> Metric:
    """What a panel's methods are compared by."""
    return measures.main_metric([run for arm in panel.arms for run in self.of(panel, arm.label)])


class Interrupted(Exception):
  """The user stopped it; the same command goes on."""


def quick(panel: Panel) -> Panel:
  """A panel that only shows that everything works: a tenth of the rounds, the grid's two middle values."""
  setting = panel.setting
  grid = {name: values[-3:-1] or values for name, values in setting.grid.items()}
  arms = tuple(
    dataclasses.replace(arm, grid={name: values[:1] for name, values in arm.grid.items()})
    for arm in panel.arms
  )
  shorter = max(2, setting.rounds // QUICK_SHARE)
  return Panel(dataclasses.replace(setting, rounds=shorter, grid=grid), arms)


def run(panels: Sequence[Panel], folder: pathlib.Path, data_dir: str | None, jobs: int) -> Results:
  """Runs, or goes on with, all that the panels need."""
  methods = {
    (p.setting.name, arm.label): _search_space(p.setting, arm, data_dir)
    for p in panels
    for arm in p.arms
  }
  tuning = {key: runs_of([_with_seeds(space, (TUNING_SEED,))]) for key, space in methods.items()}
  several = [runs for runs in tuning.values() if len(runs) > 1]
  _sweep(folder / "tuning", itertools.chain.from_iterable(several), jobs)
  chosen = {
    key: _best(folder / "tuning", runs) if len(runs) > 1 else runs[0]
    for key, runs in tuning.items()
  }
  seeds = {(p.setting.name, arm.label): p.setting.seeds for p in panels for arm in p.arms}
  final = {
    key: runs_of([_with_seeds(_fixed(methods[key], run.values), seeds[key])])
    for key, run in chosen.items()
  }
  _sweep(folder / "seeds", itertools.chain.from_iterable(final.values()), jobs)
  return Results(
    {
      key: [reader.read(folder / "seeds" / run.name) for run in runs] for key, runs in final.items()
    },
    {key: run.values for key, run in chosen.items()},
    {key: _edges(methods[key], run.values) for key, run in chosen.items()},
  )


def _search_space(setting: TrialSetting, arm: Arm, data_dir: str | None) -> SearchSpace:
  where = (f"--data_dir={data_dir}",) if setting.needs_data else ()
  grids = {**setting.grid, **arm.grid}
  return SearchSpace(
    label=f"{setting.name}.{arm.label}",
    task=setting.task,
    algo=arm.algo,
    flags=(
      f"--task={setting.task}", f"--algo={arm.algo}", *setting.flags, *arm.flags, *where,
      f"--total_rounds={setting.rounds}", "--max_clients_in_flight=1", "--lean",
    ),
    grids=tuple(Grid(None, name, values) for name, values in grids.items()),
    seeds=(),
  )  # fmt: skip


def _with_seeds(space: SearchSpace, seeds: tuple[int, ...]) -> SearchSpace:
  return dataclasses.replace(space, seeds=seeds)


def _fixed(space: SearchSpace, values: Mapping[str, str]) -> SearchSpace:
  grids = tuple(
    dataclasses.replace(grid, values=(values[grid.name],))
    for grid in space.grids
    if grid.name in values
  )
  return dataclasses.replace(space, grids=grids)


def _sweep(folder: pathlib.Path, runs: "itertools.chain[SweepRun]", jobs: int) -> None:
  wanted = list({run.name: run for run in runs}.values())
  pool = LocalPool(jobs)
  try:
    sweep = Sweep(folder, wanted, pool, None, {"of": "experiments/claims.py"})
    if not sweep.run([None], 1):
      raise Interrupted
  finally:
    pool.close()
  failed = [name for name, outcome in sweep.outcomes.items() if outcome.state == "failed"]
  if failed:
    raise RuntimeError(
      f"{len(failed)} runs failed, the first is {failed[0]}: {sweep.outcomes[failed[0]].reason}"
    )


def _best(folder: pathlib.Path, runs: Sequence[SweepRun]) -> SweepRun:
  """The point of a grid with the best final value; one that diverged comes last."""
  found = {run.name: reader.read(folder / run.name) for run in runs}
  metric = measures.main_metric(list(found.values()))
  return min(runs, key=lambda run: measures.rank([found[run.name]], metric))


def _edges(space: SearchSpace, values: Mapping[str, str]) -> list[str]:
  return [
    grid.name
    for grid in space.grids
    if len(grid.values) > 2 and values.get(grid.name) in (grid.values[0], grid.values[-1])
  ]
