"""From the command line to the page: which claims, what they need, what was seen."""

import argparse
import pathlib

from experiments import settings
from experiments.claiming import catalogue, protocol
from experiments.claiming.protocol import Claim, Panel, Results

RESULTS = pathlib.Path(__file__).resolve().parents[1] / "RESULTS.md"


def run(asked: argparse.Namespace) -> int:
  """Runs the claims asked for, all panels together so that no run is made twice, and writes the page."""
  settings.define_flags()  # what a grid may name
  names = asked.claims or (catalogue.QUICK if asked.quick else list(catalogue.CLAIMS))
  claims = [catalogue.CLAIMS[name] for name in names]
  left_out = [c for c in claims if asked.data_dir is None and any(map(_needs_data, c.panels))]
  claims = [claim for claim in claims if claim not in left_out]
  for claim in left_out:
    print(f"{claim.name} needs real data: give --data_dir.")
  folder = pathlib.Path(asked.root_output_dir)
  panels = [panel for claim in claims for panel in claim.panels]
  if asked.quick:
    folder, panels = folder.with_name(folder.name + "_quick"), [protocol.quick(p) for p in panels]
  results = protocol.run(panels, folder, asked.data_dir, asked.jobs)
  return write(asked, claims, results)


def _needs_data(panel: Panel) -> bool:
  return panel.setting.needs_data


def write(asked: argparse.Namespace, claims: list[Claim], results: Results) -> int:
  """Writes the page."""
  return 0
