"""The flags of `sweep.py`, and the checked configuration of a sweep that they describe."""

import dataclasses
import pathlib
import re
from collections.abc import Mapping, Sequence

from absl import flags

from experiments.cli import flags as cli_flags
from experiments.cli import names, presets
from experiments.cli.errors import UserError
from experiments.runs import final_value
from experiments.runs.columns import EVAL, VALIDATION
from experiments.sweeps import grids, local_pool
from experiments.sweeps.grids import Grid
from experiments.sweeps.search_space import SearchSpace
from tff_momentum.user_code import plain_name

FLAGS = flags.FLAGS
TUNED_ON = {
  "validation": "held-out training clients (validation/...); eval/... is the test data",
  "test": "the test data (eval/...)",
}
LISTING = "run.py --list"  # shows the names of tasks and algorithms
# Flags of run.py that a sweep interprets itself or sets for each run.
OWN = ("task", "algo", "set", "seed", "root_output_dir", "experiment_name", "quiet", "list",
       "list_presets", "help", "preset", "tune_on")  # fmt: skip


@dataclasses.dataclass(frozen=True)
class SweepConfig:
  """The configuration of a sweep.

  Attributes:
    spaces: what to run.
    folder: the sweep's folder.
    jobs: the number of runs at the same time on this machine.
    ray: the address of a Ray cluster to run on; None for this machine.
    halving: successive halving keeps one in this many configurations after each rung; None for no halving.
    metric: the evaluation metric to rank by; None for the task's default.
    scale: the fraction of the presets' rounds and cohort; None for the full size.
    shard: (i, n) if this process runs only every n-th run, from the i-th on; None for all.
    dry_run: whether to print the commands only.
    tune_on: what configurations are ranked by: "validation" or "test".
    remarks: notes by name for the tables.
  """

  spaces: Sequence[SearchSpace]
  folder: pathlib.Path
  jobs: int
  ray: str | None
  halving: int | None
  metric: str | None
  scale: float | None
  shard: tuple[int, int] | None
  dry_run: bool
  tune_on: str
  remarks: Mapping[str, object]


def define_flags() -> None:
  """Defines the flags of `sweep.py`, in addition to those of `run.py`."""
  again = dict(allow_override=True)
  flags.DEFINE_multi_string("algo", [], "An algorithm; may be repeated. With --preset: run only these.",
                            **again)  # fmt: skip
  flags.DEFINE_multi_string(
    "preset", [], "A preset or a folder of presets, as in ghbm/table1; may be repeated.", **again
  )
  flags.DEFINE_float(
    "scale", None, "For a quick trial: this fraction of the presets' rounds and cohort.", **again
  )
  flags.DEFINE_bool("help", False, "Show the flags and exit.", **again)
  flags.DEFINE_enum("tune_on", None, cli_flags.TUNE_ON, "What to rank configurations by: held-out training "
                    "clients, or the test data. Default: validation; test for presets without a grid, which "
                    "leave nothing to choose.", **again)  # fmt: skip
  flags.DEFINE_multi_string("grid", [], "Values to try, as in beta=0.9,0.99; scaffold:option=I,II for one "
                            "algorithm; task:alpha=0,1 for the task. May be repeated.")  # fmt: skip
  flags.DEFINE_list("seeds", None, "Seeds, as in 1,2,3 (default: the preset's, or 1).")
  flags.DEFINE_bool(
    "search", False, "With --preset: also search grids over values that the presets fix."
  )
  flags.DEFINE_integer("jobs", 1, "Number of runs at the same time on this machine.", lower_bound=1)
  flags.DEFINE_string(
    "ray", None, "Address of a Ray cluster to run on; local starts one on this machine."
  )
  flags.DEFINE_float("cpus_per_run", 1, "With --ray: CPUs per run.", lower_bound=0)
  flags.DEFINE_float("gpus_per_run", 0, "With --ray: GPUs per run; may be a fraction.",
                     lower_bound=0)  # fmt: skip
  flags.DEFINE_integer("halving", None, "Successive halving: after short runs, continue one in this many "
                       "configurations.", lower_bound=2)  # fmt: skip
  flags.DEFINE_string("metric", None, "Evaluation metric to rank by (default: accuracy, or loss).")
  flags.DEFINE_string("sweep_name", None, "Name of the sweep's folder in --root_output_dir.")
  flags.DEFINE_string("shard", None, "Share of the runs, as in 2/8, for job arrays: one command for each of "
                      "1/8 to 8/8, then the command without it for the tables.")  # fmt: skip
  flags.DEFINE_bool("dry_run", False, "Print the command of every run and exit.")


def help_text() -> str:
  """The flags of a sweep, one per line."""
  defined = FLAGS.flags_by_module_dict()[__name__]
  return "\n".join(f"  --{flag.name:24} {flag.help}" for flag in defined)


def from_flags() -> SweepConfig:
  """The configuration that the flags describe, with every name checked."""
  if "restart" in FLAGS and FLAGS["restart"].value:
    raise UserError("--restart is for single runs; choose another --sweep_name for a new sweep.")
  typed_grids = [grids.read(text) for text in FLAGS.grid]
  typed_grids += [_fixed(text) for text in FLAGS["set"].value]
  common = _common_flags()
  spaces = _from_presets(common) if FLAGS.preset else _from_names(common)
  grids.check_used(typed_grids, ((space.task, space.algo) for space in spaces))
  seeds = _seeds()
  spaces = [
    dataclasses.replace(
      space, grids=_replaced(space, typed_grids), seeds=seeds or space.seeds or (1,)
    )
    for space in spaces
  ]
  tune_on = FLAGS.tune_on or _default_tune_on(spaces)
  if tune_on != "test":  # run.py's default
    flag = f"--tune_on={tune_on}"
    spaces = [dataclasses.replace(space, flags=(*space.flags, flag)) for space in spaces]
  if FLAGS.ray is not None and FLAGS["jobs"].present:
    raise UserError("--jobs and --ray exclude each other; give one of them.")
  return SweepConfig(
    spaces=spaces,
    folder=pathlib.Path(FLAGS.root_output_dir) / _sweep_name(spaces),
    jobs=FLAGS.jobs,
    ray=FLAGS.ray,
    halving=FLAGS.halving,
    metric=FLAGS.metric and FLAGS.metric.removeprefix(EVAL).removeprefix(VALIDATION),
    scale=FLAGS.scale,
    shard=_shard(),
    dry_run=FLAGS.dry_run,
    tune_on=tune_on,
    remarks={
      "scale": FLAGS.scale,
      "data": FLAGS.data,
      "halving": FLAGS.halving,
      "final": f"{final_value.DESCRIPTION}; ± over seeds",
      "tuned on": TUNED_ON[tune_on],
    },
  )


def _default_tune_on(spaces: Sequence[SearchSpace]) -> str:
  """Held-out clients, unless the sweep runs presets as they are: then all clients train, as in the paper."""
  to_choose = any(len(grid.values) > 1 for space in spaces for grid in space.grids)
  return "validation" if to_choose or not FLAGS.preset else "test"


def _from_names(common: Sequence[str]) -> list[SearchSpace]:
  names.check_task(FLAGS.task, see=LISTING)
  if not FLAGS.algo:
    raise UserError("--algo is missing; run.py --list shows all algorithms.")
  if len(set(FLAGS.algo)) < len(FLAGS.algo):
    raise UserError(f"--algo repeats an algorithm: {', '.join(FLAGS.algo)}; give each once.")
  for algo in FLAGS.algo:
    names.check_algo(algo, see=LISTING)
  return [
    SearchSpace(
      plain_name(algo),
      FLAGS.task,
      algo,
      (f"--task={FLAGS.task}", f"--algo={algo}", *common),
      (),
      (),
    )
    for algo in FLAGS.algo
  ]


def _from_presets(common: Sequence[str]) -> list[SearchSpace]:
  chosen = list(dict.fromkeys(name for prefix in FLAGS.preset for name in presets.names(prefix)))
  factor = None if FLAGS.scale is None else str(FLAGS.scale)
  spaces = []
  for name in chosen:
    preset = presets.load(name)
    fixed = presets.merge(presets.scaled(preset.flags, factor), common)
    given = presets.by_name(fixed)
    task, algo = given.get("task"), given.get("algo")
    if (FLAGS.algo and algo not in FLAGS.algo) or (FLAGS.task and task != FLAGS.task):
      continue
    names.check_task(task, see=LISTING)
    names.check_algo(algo, see=LISTING)
    searched = (grids.read(text, flag=f"{name}.flags, grid:") for text in preset.grids)
    space = SearchSpace(
      name.replace("/", "."), str(task), str(algo), tuple(fixed), (), tuple(preset.seeds)
    )
    kept = tuple(grid for grid in searched if FLAGS.search or not _fixes(space, grid))
    spaces.append(dataclasses.replace(space, grids=kept))
  if not spaces:
    raise UserError(f"none of the {len(chosen)} presets matches the given --task and --algo.")
  return spaces


def _fixes(space: SearchSpace, grid: Grid) -> bool:
  """Whether the space's flags already set the value that the grid varies."""
  flag = grids.flag_of(grid, space.task, space.algo)
  return flag is not None and any(given.startswith(flag) for given in space.flags)


def _replaced(space: SearchSpace, typed: Sequence[Grid]) -> tuple[Grid, ...]:
  """The space's grids, replaced by those of the command line where both set the same flag."""
  flag_of = {grid: grids.flag_of(grid, space.task, space.algo) for grid in (*space.grids, *typed)}
  ours = {flag_of[grid] for grid in typed}
  return (
    *(grid for grid in space.grids if flag_of[grid] not in ours),
    *(grid for grid in typed if flag_of[grid] is not None),
  )


def _fixed(text: str) -> Grid:
  """The grid with one value for `--set beta=0.9`; the value may contain commas."""
  left, equals, value = text.partition("=")
  if not equals or not value:
    raise UserError(f"--set takes name=value, as in --set beta=0.9; found {text!r}.")
  return dataclasses.replace(grids.read(f"{left}=0", flag="--set"), values=(value,))


def _common_flags() -> list[str]:
  """The flags of run.py on the command line, which apply to every run."""
  found = []
  for flag in FLAGS.flags_by_module_dict()[cli_flags.__name__]:
    if flag.present and flag.name not in OWN:
      found += flag.serialize().split("\n")
  jobs = FLAGS.jobs
  if FLAGS.max_clients_in_flight is None and (jobs > 1 or FLAGS.ray is not None):
    share = local_pool.cores() // jobs if FLAGS.ray is None else int(FLAGS.cpus_per_run)
    found.append(f"--max_clients_in_flight={max(1, share)}")
  if FLAGS.scale is not None and not any(flag.startswith("--scale=") for flag in found):
    found.append(f"--scale={FLAGS.scale}")
  return found


def _seeds() -> tuple[int, ...]:
  if FLAGS.seeds is None:
    return ()
  try:
    seeds = tuple(int(seed) for seed in FLAGS.seeds)
  except ValueError:
    raise UserError(
      f"--seeds takes whole numbers, as in 1,2,3; found {','.join(FLAGS.seeds)}."
    ) from None
  if not seeds or min(seeds) < 0 or len(set(seeds)) < len(seeds):
    given = ",".join(FLAGS.seeds)
    raise UserError(f"--seeds takes distinct numbers from 0, as in 1,2,3; found {given}.")
  return seeds


def _shard() -> tuple[int, int] | None:
  if FLAGS.shard is None:
    return None
  found = re.fullmatch(r"(\d+)/(\d+)", FLAGS.shard)
  if not found or not 1 <= int(found[1]) <= int(found[2]):
    raise UserError(f"--shard takes i/n with i from 1 to n, as in 2/8; found {FLAGS.shard!r}.")
  if FLAGS.halving is not None:
    raise UserError("--halving compares all runs of the sweep; leave out --shard.")
  return int(found[1]), int(found[2])


def _sweep_name(spaces: Sequence[SearchSpace]) -> str:
  name = FLAGS.sweep_name
  if name is None:
    what = [*FLAGS.preset] or [spaces[0].task, *(space.algo for space in spaces)]
    scale = f"_scale_{FLAGS.scale}" if FLAGS.scale else ""
    name = "sweep_" + re.sub(r"[^A-Za-z0-9.]+", "_", "_".join(what))[:80] + scale
  if name != pathlib.Path(name).name or name in ("", ".", ".."):
    raise UserError(f"--sweep_name must be a folder name without a path; found {name!r}.")
  return name
