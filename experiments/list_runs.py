#!/usr/bin/env python3
"""Lists, compares and cleans run folders.

    python experiments/list_runs.py                              # all runs below runs/
    python experiments/list_runs.py compare runs/a runs/b        # how their configurations and results differ
    python experiments/list_runs.py clean runs --diverged        # what would be deleted; --yes deletes it

It is not called runs.py, because the package experiments/runs has that name. Does not need TensorFlow.
"""

import argparse
import os
import pathlib
import shutil
import signal
import sys
import time

if not __package__:  # run as a script: import from the project's root, not from this folder
  sys.path[0] = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

from experiments.cli import errors
from experiments.cli.errors import OneSentenceParser, UserError
from experiments.runs import overview
from experiments.runs.overview import RunOverview


def main(argv: list[str]) -> int:
  """Runs a command; returns the exit code."""
  if not argv or argv[0] not in ("list", "compare", "clean", "-h", "--help"):
    argv = ["list", *argv]
  arguments = parse(argv)
  try:
    if arguments.command == "list":
      print(overview.table(found_in(arguments.folders)))
    elif arguments.command == "compare":
      runs = found_in(arguments.folders)
      if len(runs) < 2:
        raise UserError(f"compare needs at least two runs; found {len(runs)}.")
      print(overview.comparison(runs))
    else:
      clean(arguments)
  except UserError as error:
    errors.fail(str(error))
  return 0


def parse(argv: list[str]) -> argparse.Namespace:
  """Parses the command line."""
  parser = OneSentenceParser(
    prog="list_runs.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
  )
  commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
  for name, words in (
    ("list", "one line per run: task, algorithm, rounds, final value, state, date"),
    ("compare", "the values that differ between runs, and their results"),
    ("clean", "delete runs; shows them only, unless --yes is given"),
  ):
    command = commands.add_parser(name, help=words)
    command.add_argument(
      "folders",
      nargs="*" if name == "list" else "+",
      metavar="FOLDER",
      help="run folders, or folders that contain them" + (" (runs)" if name == "list" else ""),
    )
    if name == "clean":
      command.add_argument("--unfinished", action="store_true", help="runs without a summary")
      command.add_argument("--diverged", action="store_true", help="runs that diverged")
      command.add_argument(
        "--older_than", type=float, metavar="DAYS", help="runs that were last written before that"
      )
      command.add_argument("--yes", action="store_true", help="delete them")
  return parser.parse_args(argv)


def found_in(folders: list[str]) -> list[RunOverview]:
  """The runs in these folders and below them; raises `UserError` if there is none."""
  runs = [
    run for folder in folders or ["runs"] for run in overview.read_below(pathlib.Path(folder))
  ]
  if not runs:
    raise UserError(
      f"expected run folders (with config.json) in {', '.join(folders or ['runs'])}; found none."
    )
  return list({run.path.resolve(): run for run in runs}.values())


def clean(arguments: argparse.Namespace) -> None:
  """Deletes the chosen runs, or shows what would be deleted."""
  if not (arguments.unfinished or arguments.diverged or arguments.older_than is not None):
    raise UserError(
      "clean needs --unfinished, --diverged or --older_than=DAYS; found none of them."
    )
  states = {
    state
    for state, chosen in (("unfinished", arguments.unfinished), ("diverged", arguments.diverged))
    if chosen
  }
  before = time.time() - 86_400 * (arguments.older_than or 0)
  chosen = [
    run
    for run in found_in(arguments.folders)
    if (not states or run.state in states) and run.state != "running" and run.written <= before
  ]
  if not chosen:
    print("No run matches; nothing to delete.")
    return
  print(overview.table(chosen))
  if not arguments.yes:
    print(f"{len(chosen)} runs would be deleted; add --yes to delete them.")
    return
  for run in chosen:
    shutil.rmtree(run.path)
  print(f"{len(chosen)} runs were deleted.")


if __name__ == "__main__":
  signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # `| head` is not an error
  sys.exit(main(sys.argv[1:]))
