"""The page: one self-contained HTML file without scripts or network access."""

import base64
import dataclasses
import html
from collections.abc import Iterable, Sequence

from experiments.reports import measures, result_tables
from experiments.reports.comparison import Setting, shown
from experiments.reports.table_formats import Table, folded, to_html
from experiments.runs.reader import Run

STYLE = """
:root { --ink: #1b1f24; --soft: #59636e; --line: #d9dee3; --accent: #0072B2; }
* { box-sizing: border-box; }
body { margin: 0; font: 16px/1.5 system-ui, "Segoe UI", Helvetica, Arial, sans-serif; color: var(--ink);
       background: #f5f6f8; }
header { background: #fff; border-bottom: 1px solid var(--line); padding: 1.6rem 2rem 1.2rem; }
h1 { font-size: 1.9rem; margin: 0 0 .2rem; letter-spacing: -.01em; }
header p { margin: 0; color: var(--soft); }
nav { margin-top: .7rem; display: flex; flex-wrap: wrap; gap: .3rem 1.2rem; }
a { color: var(--accent); text-decoration: none; } a:hover { text-decoration: underline; }
main { max-width: 1280px; margin: 0 auto; padding: 1.2rem 2rem 3rem; }
h2 { font-size: 1.35rem; margin: 2.2rem 0 .2rem; } h3 { font-size: 1rem; margin: 0 0 .6rem; }
.what { color: var(--soft); margin: 0 0 1rem; }
.note { display: inline-block; background: #FFF3D6; border: 1px solid #E69F00; border-radius: 4px;
        padding: 0 .45rem; font-size: .85rem; font-weight: 600; margin-left: .5rem; vertical-align: middle; }
.headlines { display: grid; grid-template-columns: repeat(auto-fit, minmax(260px, 1fr)); gap: 1rem; }
.headline { background: #fff; border: 1px solid var(--line); border-left: 5px solid var(--accent);
            border-radius: 6px; padding: .8rem 1rem; }
.headline strong { display: block; font-size: 1.5rem; } .headline span { color: var(--soft); }
.grid { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 520px), 1fr)); gap: 1rem;
        align-items: start; }
figure { margin: 0 0 1rem; background: #fff; border: 1px solid var(--line); border-radius: 6px;
         padding: 1rem 1.1rem; min-width: 0; break-inside: avoid; }
.wide { grid-column: 1 / -1; } .wide img { max-width: 920px; display: block; margin: 0 auto; width: 100%; }
figure img { width: 100%; height: auto; max-height: 560px; object-fit: contain; }
figcaption { color: var(--soft); font-size: .88rem; margin-top: .5rem; }
code { font-size: .82rem; overflow-wrap: anywhere; }
.scroll { overflow-x: auto; } summary { cursor: pointer; color: var(--accent); }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; min-width: 60%; }
thead th { border-top: 2px solid var(--ink); border-bottom: 1px solid var(--ink); font-weight: 600; }
th, td { padding: .32rem .9rem; text-align: right; white-space: nowrap; }
thead th { white-space: normal; vertical-align: bottom; }
th:first-child, td:first-child { text-align: left; font-weight: 500; }
tbody tr:last-child > * { border-bottom: 2px solid var(--ink); } tbody tr:hover { background: #f3f7fa; }
u { text-underline-offset: 3px; } .saved, .extra, .same { font-size: .86em; margin-left: .35em; }
.saved { color: #0072B2; } .extra { color: #B34700; } .same { color: var(--soft); }
@media print { body { background: #fff; font-size: 11pt; } nav { display: none; } main { padding: 0; }
               figure, .headline { border-color: #bbb; } }
"""


@dataclasses.dataclass(frozen=True)
class Picture:
  """A written figure: its SVG, and the names of its files."""

  title: str
  caption: str
  alt: str
  svg: bytes
  files: str


@dataclasses.dataclass(frozen=True)
class Section:
  """The figures and tables of one setting; the first picture is shown large."""

  setting: Setting
  pictures: Sequence[Picture]
  tables: Sequence[Table]


def page(final: Table, sections: Sequence[Section], heat: Sequence[Picture], runs: Sequence[Run],
         left_out: Sequence[str]) -> str:  # fmt: skip
  """The HTML of the page.

  Args:
    final: the table of final values.
    sections: one section per setting.
    heat: the figures that compare settings and hyperparameters.
    runs: all runs in the report.
    left_out: a sentence for each run that was left out.
  """
  links = [("final", "Final results")]
  links += [(f"setting-{i}", s.setting.label) for i, s in enumerate(sections, 1)]
  links += [("heat", "Settings and hyperparameters")] if heat else []
  links += [("runs", "Runs")]
  parts = [
    "<!doctype html>\n<html lang=en><head><meta charset=utf-8>",
    "<meta http-equiv=Content-Security-Policy content=\"default-src 'none'; img-src data:; "
    "style-src 'unsafe-inline'\">",
    '<meta name=viewport content="width=device-width, initial-scale=1">',
    f"<title>{html.escape(_title(sections))}</title><style>{STYLE}</style></head><body>",
    f"<header><h1>{html.escape(_title(sections))}</h1><p>{html.escape(_counts(sections, runs))}</p><nav>",
    *(f'<a href="#{target}">{html.escape(text)}</a>' for target, text in links),
    "</nav></header><main>",
    f'<div class="headlines">{"".join(_headline(s.setting) for s in sections)}</div>',
    f"<section><h2>Final results</h2>{to_html(final)}</section>",
    *(_section(number, section) for number, section in enumerate(sections, 1)),
    _heat_section(heat),
    _runs_section(runs, left_out),
    "</main></body></html>\n",
  ]
  return "\n".join(part for part in parts if part)


def _title(sections: Sequence[Section]) -> str:
  tasks = dict.fromkeys(section.setting.task for section in sections)
  return f"Federated algorithms on {', '.join(tasks)}"


def _counts(sections: Sequence[Section], runs: Sequence[Run]) -> str:
  methods = {method.label for section in sections for method in section.setting.methods}
  counts = {"run": len(runs), "method": len(methods), "setting": len(sections)}
  return " · ".join(f"{count} {what}{'s' * (count > 1)}" for what, count in counts.items())


def _headline(setting: Setting) -> str:
  """The best method of a setting, and its rounds to reach FedAvg's final value."""
  fine = [m for m in setting.methods if not m.best.diverged]
  if not fine:
    return ""
  best = min(fine, key=lambda m: measures.rank(m.best.runs, setting.metric))
  value = result_tables.final_text(best.best, setting) + (
    " %" if setting.metric.larger_is_better else ""
  )
  headline = f"best final {setting.metric.name}: {best.label}"
  reference = result_tables.baseline(setting)
  if reference and best is not reference:
    target = measures.final_spread(reference.best.runs, setting.metric).mean
    cost, own = (
      measures.cost_to_target(m.best.runs, setting.metric, target) for m in (best, reference)
    )
    if cost and own:
      headline += (
        f"; at {reference.label}’s final {setting.metric.show(target)} after {cost.rounds:.0f} rounds, "
        f"{reference.label} itself after {own.rounds:.0f}"
      )
  where = ", ".join([setting.label, *setting.notes])
  return (
    f'<div class="headline"><span>{html.escape(where)}</span><strong>{html.escape(value)}</strong>'
    f"<span>{html.escape(headline)}</span></div>"
  )


def _section(number: int, section: Section) -> str:
  setting = section.setting
  notes = "".join(f'<span class="note">{html.escape(note)}</span>' for note in setting.notes)
  hidden = (("task", setting.task), ("data", "embedded"))
  values = " · ".join(
    f"{name} {shown(value)}"
    for name, value in setting.values.items()
    if (name, value) not in hidden
  )
  pictures = "".join(_picture(p, "wide" if i == 0 else "") for i, p in enumerate(section.pictures))
  return (
    f'<section id="setting-{number}"><h2>{html.escape(setting.label)}{notes}</h2>'
    f'<p class="what">{html.escape(values)}</p><div class="grid">{pictures}</div>'
    f"{''.join(to_html(table) for table in section.tables)}</section>"
  )


def _picture(picture: Picture, kind: str = "") -> str:
  data = base64.b64encode(picture.svg).decode()
  return (
    f'<figure class="{kind}"><h3>{html.escape(picture.title)}</h3>'
    f'<img alt="{html.escape(picture.alt)}" src="data:image/svg+xml;base64,{data}">'
    f"<figcaption>{html.escape(picture.caption)} <code>{html.escape(picture.files)}</code></figcaption>"
    "</figure>"
  )


def _heat_section(heat: Iterable[Picture]) -> str:
  shown = "".join(map(_picture, heat))
  return (
    f'<section id="heat"><h2>Settings and hyperparameters</h2><div class="grid">{shown}</div></section>'
    if shown
    else ""
  )


def _runs_section(runs: Sequence[Run], left_out: Sequence[str]) -> str:
  rows = "".join(
    "<tr>" + "".join(f"<td>{html.escape(str(text))}</td>" for text in _run_row(run)) + "</tr>\n"
    for run in runs
  )
  listed = "".join(f"<li>{html.escape(text)}</li>" for text in left_out)
  missing = f"<h3>Left out</h3><ul>{listed}</ul>" if listed else ""
  names = ("Folder", "Algorithm", "Seed", "Rounds", "Revision", "")
  head = "".join(f"<th>{name}</th>" for name in names)
  table = (
    f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>'
  )
  return f'<section id="runs"><h2>Runs</h2><figure>{folded(table, len(runs))}{missing}</figure></section>'


def _run_row(run: Run) -> tuple[object, ...]:
  versions = run.config.get("versions", {})
  return (run.path.name, run.config["algo"], run.config["seed"], run.rounds, versions.get("git", ""),
          "diverged" if run.diverged else "")  # fmt: skip
