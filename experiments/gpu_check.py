#!/usr/bin/env python3
"""Checks this library on the GPUs of this machine and writes a report to paste into an issue.

    python experiments/gpu_check.py                    # all GPUs; takes some minutes, needs no data
    python experiments/gpu_check.py --devices=gpu:2    # two logical devices on each GPU
    python experiments/gpu_check.py --devices=cpu:4    # logical CPU devices in the place of GPUs
    python experiments/gpu_check.py --devices=cpu:2 --quick

The report has the devices and the libraries found; a compiled convolution, max-pooling gradient and LSTM on
each device; one round of every algorithm against the CPU's numbers; seconds a round of the benchmark's items
on the CPU, on one device with 1, 2, 4 and 8 clients in flight, and on 1 to n devices; the GPUs' utilisation
and memory where pynvml is installed; and where time goes. It is written to gpu_check.md and gpu_check.json.
Exits with code 1 if a section fails or if numbers differ.
"""

import argparse
import datetime
import json
import os
import pathlib
import re
import sys
from collections.abc import Callable
from typing import Any

if not __package__:  # run as a script: import from the project's root, not from this folder
  sys.path[0] = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

from experiments.benchmark import ITEM_NAMES
from experiments.cli import errors
from experiments.cli.errors import OneSentenceParser, UserError
from tff_momentum.registry import ALGORITHMS

DEVICES = re.compile(r"gpu(:[1-9]\d*)?|cpu:[1-9]\d*")
# What --quick takes: a second or two per setting.
QUICK_ALGORITHMS = ("fedavg", "mime", "scaffold")
QUICK_ITEMS, QUICK_SHARE, QUICK_ROUNDS = ("A",), 0.2, 2


def main(argv: list[str]) -> int:
  """Runs the sections and writes the report."""
  arguments = parse(argv)
  os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
  from experiments.checks import gpu_report

  try:
    report = collect(arguments, argv)
  except UserError as error:
    errors.fail(str(error))
  folder = pathlib.Path(arguments.output_dir)
  folder.mkdir(parents=True, exist_ok=True)
  text = gpu_report.markdown(report)
  (folder / "gpu_check.md").write_text(text, encoding="utf-8")
  (folder / "gpu_check.json").write_text(json.dumps(report, indent=1), encoding="utf-8")
  print(text)
  bad = gpu_report.failures(report)
  for line in bad:
    print(f"FAILED {line}")
  print(f"The report is in {folder / 'gpu_check.md'} and {folder / 'gpu_check.json'}.")
  return 1 if bad else 0


def parse(argv: list[str]) -> argparse.Namespace:
  """Parses the command line."""
  parser = OneSentenceParser(
    prog="gpu_check.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
  )
  add = parser.add_argument
  add("--devices", default="gpu", help="gpu, gpu:N or cpu:N (gpu)")
  add("--items", help="benchmark items, such as A,B (all)")
  add("--algorithms", help="algorithms to compare with the CPU, such as fedavg,mime (all)")
  add("--rounds", type=int, help="number of timed rounds per setting (5)")
  add("--tf32", choices=("off", "on"), default="off", help="allow TF32 on GPUs (off)")
  add("--quick", action="store_true", help="three algorithms and a fifth of one item")
  add("--output_dir", default=".", help="folder of the report (.)")
  arguments = parser.parse_args(argv)
  if not DEVICES.fullmatch(arguments.devices):
    parser.error(
      f"--devices must be gpu, gpu:N or cpu:N with N at least 1; found {arguments.devices!r}"
    )
  chosen = (QUICK_ALGORITHMS, QUICK_ITEMS) if arguments.quick else (tuple(ALGORITHMS), ITEM_NAMES)
  for name, all_of, usual in (
    ("algorithms", tuple(ALGORITHMS), chosen[0]),
    ("items", ITEM_NAMES, chosen[1]),
  ):
    given = getattr(arguments, name)
    values = given.split(",") if given else list(usual)
    if not set(values) <= set(all_of):
      parser.error(f"--{name} must be among {','.join(all_of)}; found {given!r}")
    setattr(arguments, name, values)
  arguments.rounds = arguments.rounds or (QUICK_ROUNDS if arguments.quick else 5)
  return arguments


def collect(arguments: argparse.Namespace, argv: list[str]) -> dict[str, Any]:
  """Runs all sections; one that fails does not end the others."""
  from tff_momentum.runtime import create_inprocess_context
  from tff_momentum.runtime.devices import find_devices

  try:
    # Creating a context first gives TensorFlow one thread per operation.
    create_inprocess_context(arguments.devices, tf32=arguments.tf32 == "on")
    names = ["/" + name.split("/")[-1] for name in find_devices(arguments.devices)]
  except RuntimeError as error:
    raise UserError(f"{error} --devices=cpu:4 tries the same on logical CPUs.") from None
  from experiments.checks import gpu_sections as sections
  from tff_momentum.runtime.gpu_decisions import Options

  options = Options(devices=arguments.devices, tf32=arguments.tf32 == "on")
  share = QUICK_SHARE if arguments.quick else 1.0
  report: dict[str, Any] = {
    "date": datetime.datetime.now().isoformat(timespec="seconds"),
    "command": " ".join(["gpu_check.py", *argv]),
  }
  for key, run in {
    "machine": lambda: sections.machine(names, options),
    "kernels": lambda: sections.kernels(names),
    "copies": lambda: sections.copies(names),
    "algorithms": lambda: sections.algorithms(names, arguments.algorithms),
    "items": lambda: sections.items(names, arguments.items, arguments.rounds, share),
  }.items():
    report[key] = _guarded(key, run)
  return report


def _guarded(key: str, run: Callable[[], Any]) -> Any:
  print(f"{key} ...", file=sys.stderr, flush=True)
  try:
    return run()
  except Exception as error:
    return {"failed": f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"}


if __name__ == "__main__":
  sys.exit(main(sys.argv[1:]))
