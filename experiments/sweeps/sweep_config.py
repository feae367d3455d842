"""What the command line of a sweep asks for, checked: algorithms or presets, grids, seeds, where to run."""

import dataclasses
import pathlib
import re
from collections.abc import Mapping, Sequence
from typing import Any

from absl import flags

import tasks
from experiments.cli import errors, presets
from experiments.cli import flags as settings
from experiments.cli.errors import UserError
from experiments.runs import final_value
from experiments.sweeps import grids, local_pool
from experiments.sweeps.grids import Grid
from experiments.sweeps.search_space import SearchSpace
from tff_momentum.registry import ALGORITHMS

FLAGS = flags.FLAGS
# Flags of run.py that a sweep reads itself, or sets for each run.
OWN = ("task", "algo", "set", "seed", "root_output_dir", "experiment_name", "quiet", "list", "help",
       "preset")  # fmt: skip


@dataclasses.dataclass(frozen=True)
class SweepConfig:
  """A sweep to run."""

  spaces: Sequence[SearchSpace]
  folder: pathlib.Path
  jobs: int
  ray: str | None
  halving: int | None
  metric: str | None
  scale: float | None
  dry_run: bool
  remarks: Mapping[str, Any]


def define_flags() -> None:
  """Defines the flags of `sweep.py`, beside those of `run.py`."""
  again = dict(allow_override=True)
  flags.DEFINE_multi_string("algo", [], "An algorithm; repeat it for several. With --preset: only these.",
                            **again)  # fmt: skip
  flags.DEFINE_multi_string(
    "preset", [], "A preset or a folder of presets, as in ghbm/table1.", **again
  )
  flags.DEFINE_float(
    "scale", None, "A try-out: this share of the presets' rounds and cohort.", **again
  )
  flags.DEFINE_bool("help", False, "Show the flags, and stop.", **again)
  flags.DEFINE_multi_string("grid", [], "Values to try, as in beta=0.9,0.99; scaffold:option=I,II for one "
                            "algorithm; task:alpha=0,1 for the task's.")  # fmt: skip
  flags.DEFINE_list("seeds", None, "Seeds, as in 1,2,3; default: the preset's, or 1.")
  flags.DEFINE_bool("search", False, "With --preset: also search the values that the presets fix.")
  flags.DEFINE_integer("jobs", 1, "Runs at once on this machine.", lower_bound=1)
  flags.DEFINE_string("ray", None, "The address of a Ray cluster to run on; local starts one here.")
  flags.DEFINE_float("cpus_per_run", 1, "With --ray: the CPUs that a run takes.", lower_bound=0)
  flags.DEFINE_float("gpus_per_run", 0, "With --ray: the GPUs that a run takes, or a part of one.",
                     lower_bound=0)  # fmt: skip
  flags.DEFINE_integer("halving", None, "Keep the best of so many after a short run, and go on with those.",
                       lower_bound=2)  # fmt: skip
  flags.DEFINE_string("metric", None, "Rank by this evaluation metric; default: accuracy, or loss.")
  flags.DEFINE_string("sweep_name", None, "The sweep's folder in --root_output_dir.")
  flags.DEFINE_bool("dry_run", False, "Print the command of every run, and stop.")


def help_text() -> str:
  """The flags of a sweep, a line each."""
  defined = FLAGS.flags_by_module_dict()[__name__]
  return "\n".join(f"  --{flag.name:24} {flag.help}" for flag in defined)


def parse(argv: Sequence[str]) -> None:
  """Reads the flags; raises `UserError` for what is wrong with them."""
  try:
    rest = FLAGS(list(argv))
  except flags.UnrecognizedFlagError as error:
    raise UserError(f"there is no flag --{error.flagname}; --help shows all.") from None
  except flags.Error as error:
    raise UserError(" ".join(str(error).replace("flag ", "").split()) + ".") from None
  if len(rest) > 1:
    raise UserError(f"flags are written --name=value; found {rest[1]!r} by itself.")


def from_flags() -> SweepConfig:
  """The sweep that the flags ask for, with every name in it checked."""
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
  if FLAGS.ray is not None and FLAGS["jobs"].present:
    raise UserError("--jobs and --ray exclude each other; give one of them.")
  return SweepConfig(
    spaces=spaces,
    folder=pathlib.Path(FLAGS.root_output_dir) / _sweep_name(spaces),
    jobs=FLAGS.jobs,
    ray=FLAGS.ray,
    halving=FLAGS.halving,
    metric=FLAGS.metric and FLAGS.metric.removeprefix("eval/"),
    scale=FLAGS.scale,
    dry_run=FLAGS.dry_run,
    remarks={
      "scale": FLAGS.scale,
      "data": FLAGS.data,
      "halving": FLAGS.halving,
      "score": f"{final_value.DESCRIPTION}; ± over seeds",
    },
  )


def _from_names(common: Sequence[str]) -> list[SearchSpace]:
  errors.check_name("--task", FLAGS.task, tasks.TASKS, prefixes=("tfds:",))
  if not FLAGS.algo:
    raise UserError("--algo is missing; run.py --list shows what there is.")
  if len(set(FLAGS.algo)) < len(FLAGS.algo):
    raise UserError(f"--algo names one twice: {', '.join(FLAGS.algo)}; give each once.")
  for algo in FLAGS.algo:
    errors.check_name("--algo", algo, ALGORITHMS)
  return [
    SearchSpace(algo, FLAGS.task, algo, (f"--task={FLAGS.task}", f"--algo={algo}", *common), (), ())
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
    errors.check_name("--task", task, tasks.TASKS, prefixes=("tfds:",))
    errors.check_name("--algo", algo, ALGORITHMS)
    searched = (grids.read(text, flag=f"{name}.flags, grid:") for text in preset.grids)
    space = SearchSpace(
      name.replace("/", "."), str(task), str(algo), tuple(fixed), (), tuple(preset.seeds)
    )
    kept = tuple(grid for grid in searched if FLAGS.search or not _fixes(space, grid))
    spaces.append(dataclasses.replace(space, grids=kept))
  if not spaces:
    raise UserError(f"none of the {len(chosen)} presets is for the --task or --algo that is given.")
  return spaces


def _fixes(space: SearchSpace, grid: Grid) -> bool:
  """Whether the space's flags already give what the grid would vary."""
  flag = grids.flag_of(grid, space.task, space.algo)
  return flag is not None and any(given.startswith(flag) for given in space.flags)


def _replaced(space: SearchSpace, typed: Sequence[Grid]) -> tuple[Grid, ...]:
  """The space's grids, those of the command line instead of its own."""
  flag_of = {grid: grids.flag_of(grid, space.task, space.algo) for grid in (*space.grids, *typed)}
  ours = {flag_of[grid] for grid in typed}
  return (
    *(grid for grid in space.grids if flag_of[grid] not in ours),
    *(grid for grid in typed if flag_of[grid] is not None),
  )


def _fixed(text: str) -> Grid:
  """`--set beta=0.9` for a sweep: a grid of one value, whatever commas are in it."""
  left, equals, value = text.partition("=")
  if not equals or not value:
    raise UserError(f"--set takes name=value, as in --set beta=0.9; found {text!r}.")
  return dataclasses.replace(grids.read(f"{left}=0", flag="--set"), values=(value,))


def _common_flags() -> list[str]:
  """The flags of run.py that were typed, for every run."""
  found = []
  for flag in FLAGS.flags_by_module_dict()[settings.__name__]:
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
    raise UserError(f"--seeds takes different numbers from 0, as in 1,2,3; found {FLAGS.seeds}.")
  return seeds


def _sweep_name(spaces: Sequence[SearchSpace]) -> str:
  name = FLAGS.sweep_name
  if name is None:
    what = [*FLAGS.preset] or [spaces[0].task, *(space.algo for space in spaces)]
    scale = f"_scale_{FLAGS.scale}" if FLAGS.scale else ""
    name = "sweep_" + re.sub(r"[^A-Za-z0-9.]+", "_", "_".join(what))[:80] + scale
  if name != pathlib.Path(name).name or name in ("", ".", ".."):
    raise UserError(f"--sweep_name must be a plain folder name; found {name!r}.")
  return name
