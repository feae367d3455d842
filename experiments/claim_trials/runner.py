"""Runs the experiments behind the claims: tunes every method with one seed, evaluates it with other seeds.

Grids, rounds and seeds are fixed before the first run. Each method's grid is run with seed 0. The
configuration with the best final value is run again with the setting's seeds; only these runs are results.
"""

import dataclasses
import itertools
import pathlib
from collections.abc import Iterable, Mapping, Sequence

from experiments.claim_trials import archive as archives
from experiments.claim_trials.claim import Arm, Panel, Results, TrialSetting
from experiments.reports import measures
from experiments.runs import final_value, reader
from experiments.sweeps.grids import Grid
from experiments.sweeps.local_pool import LocalPool
from experiments.sweeps.scheduler import Sweep
from experiments.sweeps.search_space import SearchSpace, SweepRun, runs_of
from experiments.sweeps.sweep_config import TUNED_ON

TUNING_SEED = 0
REMARKS = {"final": final_value.DESCRIPTION, "tuned on": TUNED_ON["test"]}  # below the tables
QUICK_FACTOR = 10  # --quick divides the rounds by this


class Interrupted(Exception):
  """The user interrupted the runs; the same command continues them."""


def quick(panel: Panel) -> Panel:
  """A short version of a panel for a smoke test: a tenth of the rounds, two values of the grid, two seeds."""
  setting = panel.setting
  grid = {name: values[-3:-1] or values for name, values in setting.grid.items()}
  arms = tuple(
    dataclasses.replace(arm, grid={name: values[:1] for name, values in arm.grid.items()})
    for arm in panel.arms
  )
  rounds = max(2, setting.rounds // QUICK_FACTOR)
  short = dataclasses.replace(setting, rounds=rounds, grid=grid, seeds=setting.seeds[:2])
  return Panel(short, arms, panel.printed)


def run(
  panels: Sequence[Panel],
  folder: pathlib.Path,
  data_dir: str | None,
  jobs: int,
  archive: pathlib.Path | None = None,
) -> Results:
  """Runs all experiments of the panels; runs that are complete in the folder are not repeated.

  Args:
    panels: the panels; methods that several of them share are run once.
    folder: contains the runs' folders.
    data_dir: the folder of the data sets; None if no panel needs one.
    jobs: the number of runs at the same time.
    archive: a folder of finished runs, which are not repeated either; new ones are added.

  Raises:
    Interrupted: if the user interrupted the runs.
    RuntimeError: if a run failed.
  """
  settings = {(p.setting.name, arm.label): p.setting for p in panels for arm in p.arms}
  methods = {
    (p.setting.name, arm.label): search_space(p.setting, arm, data_dir)
    for p in panels
    for arm in p.arms
  }
  tuning = {key: tuning_runs(space) for key, space in methods.items()}
  several = [runs for runs in tuning.values() if len(runs) > 1]
  _sweep(folder / "tuning", itertools.chain.from_iterable(several), jobs, archive)
  chosen = {
    key: best(folder / "tuning", runs, settings[key].last_rounds) if len(runs) > 1 else runs[0]
    for key, runs in tuning.items()
  }
  final = {
    key: runs_of([_with_seeds(_fixed(methods[key], run.values), settings[key].seeds)])
    for key, run in chosen.items()
  }
  _sweep(folder / "seeds", itertools.chain.from_iterable(final.values()), jobs, archive)
  return Results(
    {
      key: [reader.read(folder / "seeds" / run.name) for run in runs] for key, runs in final.items()
    },
    {key: run.values for key, run in chosen.items()},
    {key: edges(methods[key], run.values) for key, run in chosen.items()},
  )


def search_space(setting: TrialSetting, arm: Arm, data_dir: str | None) -> SearchSpace:
  """The grids of a method in a setting, without seeds."""
  where = (f"--data_dir={data_dir}",) if setting.needs_data else ()
  grids = {**setting.grid, **arm.grid}
  return SearchSpace(
    label=f"{setting.name}.{arm.label}",
    task=setting.task,
    algo=arm.algo,
    flags=(
      f"--task={setting.task}", f"--algo={arm.algo}", *setting.flags, *arm.flags, *where,
      f"--total_rounds={setting.rounds}", "--max_clients_in_flight=1", "--lean", "--tune_on=test",
    ),
    grids=tuple(Grid(None, name, values) for name, values in grids.items()),
    seeds=(),
  )  # fmt: skip


def tuning_runs(space: SearchSpace) -> list[SweepRun]:
  """The runs that tune a method: its grid with the tuning seed."""
  return runs_of([_with_seeds(space, (TUNING_SEED,))])


def best(folder: pathlib.Path, runs: Sequence[SweepRun], last: int | None = None) -> SweepRun:
  """The run with the best final value, over its `last` rounds if given; diverged runs rank last."""
  found = {run.name: reader.read(folder / run.name) for run in runs}
  metric = measures.main_metric(list(found.values()))
  return min(runs, key=lambda run: measures.rank([found[run.name]], metric, last))


def edges(space: SearchSpace, values: Mapping[str, str]) -> list[str]:
  """The names of the values that are at an end of a grid with more than two values."""
  return [
    grid.name
    for grid in space.grids
    if len(grid.values) > 2 and values.get(grid.name) in (grid.values[0], grid.values[-1])
  ]


def _with_seeds(space: SearchSpace, seeds: tuple[int, ...]) -> SearchSpace:
  return dataclasses.replace(space, seeds=seeds)


def _fixed(space: SearchSpace, values: Mapping[str, str]) -> SearchSpace:
  grids = tuple(
    dataclasses.replace(grid, values=(values[grid.name],))
    for grid in space.grids
    if grid.name in values
  )
  return dataclasses.replace(space, grids=grids)


def _sweep(
  folder: pathlib.Path, runs: Iterable[SweepRun], jobs: int, archive: pathlib.Path | None
) -> None:
  distinct = list({run.name: run for run in runs}.values())
  distinct.sort(key=lambda run: run.seed)  # every method has a result early
  if not distinct:  # nothing to tune
    return
  if archive is not None:
    archives.restore(archive, folder, distinct)
  pool = LocalPool(jobs)
  try:
    sweep = Sweep(folder, distinct, pool, None, {"of": "experiments/claims.py", **REMARKS})
    if not sweep.run([None], 1):
      raise Interrupted
  finally:
    pool.close()
    if archive is not None:
      archives.save(archive, folder, distinct)
  failed = [name for name, outcome in sweep.outcomes.items() if outcome.state == "failed"]
  if failed:
    raise RuntimeError(
      f"{len(failed)} runs failed, the first is {failed[0]}: {sweep.outcomes[failed[0]].reason}"
    )
