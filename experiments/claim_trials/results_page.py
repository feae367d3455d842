"""RESULTS.md: for each claim the verdict, the numbers behind it, the figure, the command and the time."""

import pathlib
from collections.abc import Sequence

import matplotlib.pyplot as plt

from experiments.claim_trials import figures, full_scale
from experiments.claim_trials.protocol import TUNING_SEED, Claim, Finding, Panel, Results
from experiments.reports import measures

INTRODUCTION = """# Do the papers' claims hold at desk scale?

Written by `experiments/claims.py`; do not edit. {command}

**How.** Each method's learning rates (and for FedGM its β and ν, as its paper does) are tuned on one grid,
the same for every method of a figure, with seed {tuning}. The point with the best final value is run again
with other seeds, and only these runs are results. A final value is the mean test metric over the last 100
rounds, or the second half of a shorter run. To beat is to be better on average and in every seed. Grids,
rounds and seeds are in `experiments/claiming/` and were committed before they were run. In a first pass
several methods stood at an end of their grid; it was then made longer, once, for all methods of the figure,
and committed again before anything was run on it. ± is the standard deviation between seeds. All runs
together add up to {hours:.1f} hours, two at a time, so half of that by the clock.

| claim | from | verdict |
|---|---|---|
{rows}
"""


def verdict(findings: Sequence[Finding]) -> str:
  """holds, holds in part, or does not hold at this scale."""
  seen = sum(finding.seen for finding in findings)
  if seen == len(findings):
    return "holds"
  return "holds in part" if seen else "does not hold at this scale"


def write(
  path: pathlib.Path,
  claims: Sequence[Claim],
  left: Sequence[Claim],
  found: Results,
  hours: dict[str, float],
  command: str,
) -> None:
  """Writes the page, and the figures into a folder beside it; claims that are left were not tried."""
  pictures = path.with_suffix("")
  pictures = pictures.with_name(pictures.name.lower())
  pictures.mkdir(parents=True, exist_ok=True)
  findings = {claim.name: [look(found) for look in claim.expected] for claim in claims}
  sections = []
  for claim in claims:
    drawn = figures.draw(claim, found)
    drawn.savefig(pictures / f"{claim.name}.png", dpi=90)
    plt.close(drawn)
    sections.append(_section(claim, findings[claim.name], found, hours, pictures.name))
  rows = [
    f"| [{claim.name}](#{claim.name}) | {claim.source} | {verdict(findings[claim.name])} |"
    for claim in claims
  ]
  rows += [f"| {claim.name} | {claim.source} | not tried yet |" for claim in left]
  head = INTRODUCTION.format(
    command=command, tuning=TUNING_SEED, hours=sum(hours.values()), rows="\n".join(rows)
  )
  path.write_text("\n".join([head, *sections, full_scale.section(claims)]), encoding="utf-8")


def _section(
  claim: Claim, findings: Sequence[Finding], found: Results, hours: dict[str, float], pictures: str
) -> str:
  parts = [
    f"## {claim.name}",
    f"> {claim.statement} ({claim.source})",
    f"**{verdict(findings).capitalize()}.**",
    "\n".join(f"- {'✓' if finding.seen else '✗'} {finding.text}." for finding in findings),
    f"![{claim.statement}]({pictures}/{claim.name}.png)",
    *dict.fromkeys(_table(panel, found) for panel in claim.panels),
  ]
  if claim.checked:
    parts.append(f"*Checked before believing it:* {claim.checked}")
  needed = " --data_dir=DIR" if any(panel.setting.needs_data for panel in claim.panels) else ""
  methods = {(panel.setting.name, arm.label) for panel in claim.panels for arm in panel.arms}
  runs = sum(len(found.runs[method]) for method in methods)
  minutes = 60 * sum(hours[name] for name in {panel.setting.name for panel in claim.panels})
  parts.append(
    f"`python experiments/claims.py {claim.name}{needed}`: {runs} runs after tuning. All runs of these "
    f"settings, with the tuning and what other claims share, add up to {minutes:.0f} min, two at a time, on "
    "a machine with other work on it."
  )
  return "\n\n".join(parts) + "\n"


def _table(panel: Panel, found: Results) -> str:
  metric = found.metric(panel)
  unit = " (%)" if metric.larger_is_better else ""
  rows = []
  for arm in panel.arms:
    key = panel.setting.name, arm.label
    mean, std = measures.final_spread(found.runs[key], metric)
    diverged = sum(run.diverged for run in found.runs[key])
    value = f"{metric.show(mean)} ± {std * metric.factor:.2g}"
    tuned = ", ".join(
      f"{name} {value}" + (" (end of the grid)" if name in found.edges[key] else "")
      for name, value in found.tuned[key].items()
    )
    rows.append(
      f"| {arm.label} | {tuned or '–'} | {f'× in {diverged} seeds' if diverged else value} |"
    )
  setting = panel.setting
  seeds = f"seeds {setting.seeds[0]} to {setting.seeds[-1]}"
  header = f"| method | tuned to | final {metric.name}{unit} |"
  return "\n".join(
    [f"{setting.label}, {setting.rounds} rounds, {seeds}:", "", header, "|---|---|---|", *rows]
  )
