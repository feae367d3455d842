"""From the command line to the page: which claims, what they need, what was seen."""

import argparse
import pathlib

from experiments.claim_trials import protocol, registry, results_page
from experiments.claim_trials.protocol import Panel
from experiments.cli import flags

RESULTS = pathlib.Path(__file__).resolve().parents[1] / "RESULTS.md"


def run(asked: argparse.Namespace) -> int:
  """Runs the claims asked for, all panels together so that no run is made twice, and writes the page."""
  flags.define_flags()  # what a grid may name
  names = asked.claims or (registry.QUICK if asked.quick else list(registry.CLAIMS))
  claims = [registry.CLAIMS[name] for name in names]
  left_out = [c for c in claims if asked.data_dir is None and any(map(_needs_data, c.panels))]
  claims = [claim for claim in claims if claim not in left_out]
  for claim in left_out:
    print(f"{claim.name} needs real data: give --data_dir.")
  folder = pathlib.Path(asked.root_output_dir)
  panels = [panel for claim in claims for panel in claim.panels]
  if asked.quick:
    folder, panels = folder.with_name(folder.name + "_quick"), [protocol.quick(p) for p in panels]
  results = protocol.run(panels, folder, asked.data_dir, asked.jobs)
  own = RESULTS if not asked.claims and not asked.quick else folder / "RESULTS.md"
  page = pathlib.Path(asked.output) if asked.output else own
  left = [] if asked.quick else [c for c in registry.CLAIMS.values() if c not in claims]
  hours = {panel.setting.name: _hours(folder, panel) for panel in panels}
  results_page.write(page, claims, left, results, hours, _remark(asked))
  print(f"Everything is in {page} and the folder beside it.")
  return 0


def _needs_data(panel: Panel) -> bool:
  return panel.setting.needs_data


def _hours(folder: pathlib.Path, panel: Panel) -> float:
  """What the runs of a setting took, from when their folders were made to when they were summed up."""
  runs = folder.glob(f"*/{panel.setting.name}.*/summary.json")
  return sum(p.stat().st_mtime - (p.parent / "config.json").stat().st_mtime for p in runs) / 3600


def _remark(asked: argparse.Namespace) -> str:
  if asked.quick:
    return "**A try-out with a tenth of the rounds, to see that it works: these are not results.**"
  return (
    "`python experiments/claims.py --data_dir=DIR` makes all of it, and goes on where it stopped."
  )
