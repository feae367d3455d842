"""What `run.py --list` and `run.py --list_presets` show."""

import os

from absl import flags

import tasks
from experiments.cli import assignments, names, presets
from experiments.cli.errors import UserError
from tff_momentum import describe, registry
from tff_momentum.registry import ALGORITHMS, REFERENCE_LINES


def shown(given: flags.FlagValues) -> str:
  """What the flags ask for; raises `UserError` for unknown names."""
  if given.task is not None:
    names.check_task(given.task)
  if given.algo is not None:
    names.check_algo(given.algo)
  if given.list_presets:
    return preset_names(given.preset or "", given.task, given.algo)
  parts = [algorithm(given.algo)] if given.algo else []
  parts += [task(given.task)] if given.task else []
  return "\n\n".join(parts) or everything()


def everything() -> str:
  """All tasks, algorithms and reference lines, one per line."""
  lines = ["Tasks:"]
  lines += [f"  {name:20} {info.summary}" for name, info in tasks.TASKS.items()]
  lines += ["", "Algorithms:"]
  lines += [f"  {name:16} {info.source:28} {info.rule}" for name, info in ALGORITHMS.items()]
  lines += ["", "Reference lines (--algo too):"]
  lines += [f"  {name:16} {info.rule}" for name, info in REFERENCE_LINES.items()]
  return "\n".join(lines)


def algorithm(name: str) -> str:
  """An algorithm's rule, its hyperparameters with defaults and ranges, and the rule of its default rates."""
  os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
  from tff_momentum import algorithms
  from tff_momentum.default_rates import reason

  info = registry.info(name)
  own = assignments.settable(name)
  lines = describe.hyperparameter_lines(name, {}, {})
  return "\n".join(
    [
      f"{name} ({info.source}): {info.rule}" if info.source != name else f"{name}: {info.rule}",
      "",
      "Hyperparameters (--set name=value), their defaults and ranges:",
      *(line for line in lines if line.split()[0] in own),
      "",
      f"Default learning rates: {reason(algorithms.builder(name))}",
      "A run derives them from the task and prints them; see docs/default_rates.md.",
    ]
  )


def task(name: str) -> str:
  """A task's summary, and its options with their defaults."""
  info = tasks.info(name)
  lines = [f"  {option:26} {default!r}" for option, default in info.options.items()]
  return "\n".join([f"{name}: {info.summary}", "", "Options and their defaults:", *lines])


def preset_names(prefix: str, task_name: str | None, algo: str | None) -> str:
  """The presets with this prefix, task and algorithm, one per line."""
  chosen = presets.names(prefix)
  if task_name or algo:
    wanted = {key: value for key, value in (("task", task_name), ("algo", algo)) if value}
    chosen = [
      name for name in chosen if wanted.items() <= presets.by_name(presets.read(name)).items()
    ]
  if not chosen:
    raise UserError("no preset has this --task and --algo; run.py --list_presets shows all.")
  return "\n".join(chosen)
