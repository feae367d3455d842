"""The hyperparameters of algorithms and the options of tasks, without importing TensorFlow."""

import ast
import functools
import importlib.util
import pathlib
from collections.abc import Mapping

import tasks
from experiments.cli.flags import STAND_INS
from tff_momentum.registry import ALGORITHMS, REQUIRED


def of_algorithm(name: str) -> Mapping[str, bool]:
  """The hyperparameters that users set, and whether each is required."""
  defaults = ALGORITHMS[name].hyperparameters
  return {
    parameter: default is REQUIRED
    for parameter, default in defaults.items()
    if parameter not in STAND_INS
  }


@functools.cache
def of_task(name: str) -> Mapping[str, bool] | None:
  """A task's options, and whether each must be given; None if it cannot be told."""
  if name not in tasks.TASKS:
    return None
  found = _parameters(tasks.TASKS[name].module, tasks.TASKS[name].function)
  return found and {option: needed for option, needed in found.items() if option != "seed"}


def made_on_the_spot(task: str) -> dict[str, str]:
  """What to ask a task for so that its data is synthetic: nothing, if it carries its data along."""
  return {"data": "synthetic"} if "data" in (of_task(task) or {}) else {}


def _parameters(module: str, function: str) -> dict[str, bool] | None:
  package, *rest = module.split(".")
  spec = importlib.util.find_spec(package)
  if spec is None or spec.origin is None:
    return None
  path = pathlib.Path(spec.origin).parent.joinpath(*rest).with_suffix(".py")
  if not path.exists():
    return None
  for node in ast.parse(path.read_text(encoding="utf-8")).body:
    if isinstance(node, ast.FunctionDef) and node.name == function and node.args.kwarg is None:
      arguments = zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)
      return {argument.arg: default is None for argument, default in arguments}
  return None
