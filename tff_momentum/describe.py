"""Prints what an algorithm is, keeps and sends: its paper, rule, hyperparameters, TFF types and bytes.

    python -m tff_momentum.describe scaffold
    python -m tff_momentum.describe fedavgm --set beta=0.99

Sizes are those of a small linear model; `experiments/describe.py` takes the model of a task instead.
"""

import argparse
import ast
import difflib
import os
import signal
import sys
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from tff_momentum import registry, user_code
from tff_momentum.default_rates import reason
from tff_momentum.papers import PAPERS
from tff_momentum.ranges import check, range_of
from tff_momentum.registry import ALGORITHMS, REFERENCE_LINES, REQUIRED

if TYPE_CHECKING:
  from tff_momentum.models.model import Model
  from tff_momentum.processes.process import FederatedProcess

WIDTH = 110
# Values for hyperparameters that have no default, or that depend on the task.
EXAMPLES: dict[str, Any] = {"client_learning_rate": 0.1, "num_clients": 100, "participation": 0.1,
                            "total_examples": 10_000, "max_staleness": 10}  # fmt: skip


class DescribeError(Exception):
  """A mistake in the command line, in one sentence."""


class DescribeParser(argparse.ArgumentParser):
  """A parser that answers a mistake with one sentence, without the usage text."""

  def error(self, message: str) -> NoReturn:
    """Raises `DescribeError`."""
    raise DescribeError(f"{message}; --help shows how to call it.")


def main(argv: Sequence[str]) -> int:
  """Checks the names before it loads TensorFlow; prints the description.

  Returns:
    The exit code: 0, or 2 for a mistake, which is explained on stderr in one sentence.
  """
  parser = DescribeParser(
    prog="python -m tff_momentum.describe", description=__doc__.splitlines()[0]
  )
  add_arguments(parser)
  try:
    arguments = parser.parse_args(argv)
    check_algorithm(arguments.algorithm)
    given = hyperparameters(arguments.algorithm, arguments.set)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    print(describe(arguments.algorithm, given, linear_model(), "a linear 784-10 model"))
  except DescribeError as error:
    print(f"describe: {error}", file=sys.stderr)
    return 2
  return 0


def add_arguments(parser: argparse.ArgumentParser) -> None:
  """Adds the arguments of every program that describes an algorithm."""
  parser.add_argument("algorithm", nargs="?", help="the name of an algorithm, such as scaffold")
  parser.add_argument(
    "--set",
    action="append",
    default=[],
    metavar="NAME=VALUE",
    help="set a hyperparameter; may be repeated",
  )


def check_algorithm(name: str | None) -> None:
  """Raises `DescribeError` unless there is an algorithm of this name."""
  known = ", ".join([*ALGORITHMS, *REFERENCE_LINES])
  if name is None:
    raise DescribeError(f"expected the name of an algorithm; found none. There are {known}.")
  if user_code.is_user_code(name):
    try:
      registry.info(name)
    except user_code.UserCodeError as error:
      raise DescribeError(str(error)) from error
    return
  if name not in ALGORITHMS and name not in REFERENCE_LINES:
    hint = _suggestions(name, [*ALGORITHMS, *REFERENCE_LINES]) or f" There are {known}."
    raise DescribeError(f"expected the name of an algorithm; found {name!r}.{hint}")


def hyperparameters(algorithm: str, assignments: Iterable[str]) -> dict[str, Any]:
  """Reads `name=value` texts.

  Raises:
    DescribeError: if a text has another form, the algorithm has no such hyperparameter, or the value is out
      of its range.
  """
  known, given = registry.info(algorithm).hyperparameters, {}
  for text in assignments:
    name, equals, value = text.partition("=")
    if not equals or not value:
      raise DescribeError(f"--set takes name=value, as in --set beta=0.9; found {text!r}.")
    if name not in known:
      hint = _suggestions(name, known)
      raise DescribeError(f"{algorithm} has no {name!r}; it has {', '.join(known)}.{hint}")
    given[name] = _literal(value)
    try:
      check(algorithm, name, given[name])
    except ValueError as error:
      raise DescribeError(str(error)) from None
  return given


def describe(
  algorithm: str,
  given: Mapping[str, Any],
  model: "Model",
  model_name: str,
  examples: Mapping[str, Any] = EXAMPLES,
) -> str:
  """Describes an algorithm on a model.

  Args:
    algorithm: a key of `ALGORITHMS` or `REFERENCE_LINES`, or `package.module:builder`.
    given: the hyperparameters that replace defaults.
    model: the model that gives the sizes.
    model_name: what to call it.
    examples: the values of hyperparameters that have no default or depend on the task.

  Raises:
    DescribeError: if a hyperparameter has an invalid value.
  """
  from tff_momentum import algorithms

  info = registry.info(algorithm)
  process = build(algorithm, given, model, examples)
  lines = [
    *_title_lines(algorithm, info),
    "",
    "hyperparameters",
    *hyperparameter_lines(algorithm, given, examples),
    f"  {'default rates':22} {reason(algorithms.builder(algorithm))}",
    "",
    f"on {model_name} with {model.num_parameters:,} parameters, {model.num_bytes:,} bytes",
    f"  server state  {process.server_state_type}",
    f"  client state  {process.client_state_type}",
  ]
  exchanges = [(f"exchange {n}", e) for n, e in enumerate(process.exchanges, 1)]
  exchanges += [("exchange in round 0 only", e) for e in process.first_round_exchanges]
  for title, exchange in exchanges:
    lines += [
      f"  {title}",
      f"    message     {exchange.message}",
      f"    upload      {exchange.upload}",
    ]
  down, up = process.bytes_down(1), process.bytes_up(1)
  lines += [
    "",
    "per client and round",
    f"  download  {down:,} bytes, {down / model.num_bytes:.3g} models",
    f"  upload    {up:,} bytes, {up / model.num_bytes:.3g} models",
    f"  together  {(down + up) / (2 * model.num_bytes):.3g} times FedAvg's",
  ]
  return "\n".join(lines)


def table(model: "Model") -> str:
  """All algorithms in a Markdown table; bytes and client states are in units of the model."""
  lines = ["| name | from | down × up | state | rule | file |", "|---|---|---|---|---|---|"]
  for name, info in ALGORITHMS.items():
    process = build(name, {}, model)
    down, up, kept = (
      f"{count / model.num_bytes:.2g}"
      for count in (process.bytes_down(1), process.bytes_up(1), process.client_state_bytes)
    )
    path = f"../tff_momentum/algorithms/{info.module}.py"
    lines.append(
      f"| `{name}` | {info.source} | {down} × {up} | {'–' if kept == '0' else kept} | {info.rule} "
      f"| [{info.module}.py]({path}) |"
    )
  return "\n".join(lines)


def build(
  algorithm: str,
  given: Mapping[str, Any],
  model: "Model",
  examples: Mapping[str, Any] = EXAMPLES,
) -> "FederatedProcess":
  """Compiles an algorithm; raises `DescribeError` if a hyperparameter is missing or invalid."""
  from tff_momentum import algorithms
  from tff_momentum.processes.process import build_process

  known = registry.info(algorithm).hyperparameters
  chosen = {**{name: value for name, value in examples.items() if name in known}, **given}
  missing = [name for name in known if known[name] is REQUIRED and name not in chosen]
  if missing:
    raise DescribeError(f"{algorithm} needs --set {missing[0]}=..., which has no default.")
  try:
    built = algorithms.build(algorithm, chosen)
  except (ValueError, OSError) as error:
    raise DescribeError(str(error)) from error
  return build_process(built, model)


def linear_model() -> "Model":
  """A linear Keras model of 784 features and 10 classes; FedMAX's penalty is on its features."""
  import tensorflow as tf

  from tff_momentum.models.keras import from_keras

  layers = tf.keras.layers
  return from_keras(
    lambda: tf.keras.Sequential(
      [layers.Flatten(input_shape=(784,), name="features"), layers.Dense(10)]
    ),
    loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    batch_spec=(tf.TensorSpec([None, 784]), tf.TensorSpec([None], tf.int32)),
    penultimate="features",
  )


def _title_lines(algorithm: str, info: registry.AlgorithmInfo) -> list[str]:
  """The paper and the rule; for an algorithm of the user's own, the first line of its docstring."""
  if user_code.is_user_code(algorithm):
    return [algorithm, *([f"  {info.rule}"] if info.rule else [])]
  if algorithm in REFERENCE_LINES:
    return [f"{algorithm} ({info.source})", "", f"rule  {info.rule}"]
  paper = PAPERS[info.paper]
  reference = f"{paper.authors}: {paper.title}. {paper.venue} {paper.year}. {paper.link}".strip()
  return [
    f"{algorithm} ({info.source})",
    *textwrap.wrap(reference, WIDTH, initial_indent="  ", subsequent_indent="  "),
    "",
    f"rule  {info.rule}",
  ]


def hyperparameter_lines(
  algorithm: str, given: Mapping[str, Any], examples: Mapping[str, Any]
) -> list[str]:
  """One line per hyperparameter: its name, its value, and its range.

  Args:
    algorithm: a key of `ALGORITHMS`.
    given: the values that replace defaults.
    examples: the values of hyperparameters that have no default or depend on the task.
  """
  lines = []
  for name, default in registry.info(algorithm).hyperparameters.items():
    if name in given:
      text = repr(given[name])
    elif default is REQUIRED:
      text = f"required; here {examples[name]!r}" if name in examples else "required"
    elif name in examples and examples[name] != default:
      text = f"{default!r}; here {examples[name]!r}"
    else:
      text = repr(default)
    known = range_of(algorithm, name)
    lines.append(f"  {name:22} {text:24} {known.text if known else ''}".rstrip())
  return lines


def _suggestions(name: str, known: Iterable[str]) -> str:
  close = difflib.get_close_matches(name, list(known), n=3, cutoff=0.5)
  return f" Did you mean {' or '.join(close)}?" if close else ""


def _literal(text: str) -> Any:
  """The Python value that a text spells, or the text itself."""
  if text.lower() in ("true", "false"):
    return text.lower() == "true"
  try:
    return ast.literal_eval(text)
  except (SyntaxError, ValueError, TypeError, MemoryError, RecursionError):
    return text


if __name__ == "__main__":
  signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # `| head` is not an error
  sys.exit(main(sys.argv[1:]))
