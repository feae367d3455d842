#!/usr/bin/env python3
"""Executes the tutorial notebook from top to bottom; fails where a cell fails.

    python docs/run_tutorial.py           # check that it runs
    python docs/run_tutorial.py --save    # and write its outputs into the notebook

Needs nbclient and ipykernel (the extra `notebook`).
"""

import argparse
import pathlib
import sys
import time

import nbformat
from nbclient import NotebookClient

NOTEBOOK = pathlib.Path(__file__).resolve().with_name("tutorial.ipynb")


def main(argv: list[str]) -> int:
  """Runs the notebook."""
  parser = argparse.ArgumentParser(prog="run_tutorial.py", description=__doc__.splitlines()[0])
  parser.add_argument("--save", action="store_true", help="write the outputs into the notebook")
  arguments = parser.parse_args(argv)
  notebook = nbformat.read(NOTEBOOK, as_version=4)
  started = time.monotonic()
  client = NotebookClient(
    notebook,
    timeout=600,
    kernel_name="python3",
    resources={"metadata": {"path": str(NOTEBOOK.parent)}},
    record_timing=False,
  )
  client.execute()
  print(f"{NOTEBOOK.name}: {time.monotonic() - started:.0f} s")
  if arguments.save:
    notebook.metadata = {
      "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
      "language_info": {"name": "python"},
    }
    nbformat.write(notebook, NOTEBOOK)
  return 0


if __name__ == "__main__":
  sys.exit(main(sys.argv[1:]))
