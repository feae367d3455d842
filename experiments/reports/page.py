"""The page: one self-contained HTML file. Its only script is inline and named by hash in its security policy.

Without scripts, and in print, the page shows static figures; with scripts it shows charts in their place.
"""

import base64
import dataclasses
import hashlib
import html
import pathlib
from collections.abc import Iterable, Sequence

from experiments.reports import measures, result_tables
from experiments.reports.comparison import Setting, shown
from experiments.reports.table_formats import Table, to_html
from experiments.runs.final_value import DESCRIPTION

_BROWSER = pathlib.Path(__file__).parent / "browser"
_SCRIPTS = ("chart.js", "explorer.js", "page.js")


@dataclasses.dataclass(frozen=True)
class Picture:
  """A static figure.

  Attributes:
    title: its title.
    caption: the sentences below it.
    alt: its alternative text.
    svg: the drawing.
    files: the names of its files.
    charted: whether a chart shows the same on a page with scripts.
    tall: whether it is much taller than wide, as bars of many methods are.
  """

  title: str
  caption: str
  alt: str
  svg: bytes
  files: str
  charted: bool = False
  tall: bool = False


@dataclasses.dataclass(frozen=True)
class Section:
  """The figures and tables of one setting; the first picture is shown large."""

  setting: Setting
  pictures: Sequence[Picture]
  tables: Sequence[Table]


@dataclasses.dataclass(frozen=True)
class Contents:
  """What a page shows.

  Attributes:
    final: the table of final values; None if no run has finished.
    sections: one section per setting.
    across: the figures that compare settings and hyperparameters.
    unfinished: the table of unfinished runs; None if there are none.
    runs: the table of finished runs; None if there are none.
    left_out: a sentence for each run that was left out.
    charts: the data of the charts as JSON, safe inside an HTML script element.
    static: whether the page has static figures for print.
  """

  final: Table | None
  sections: Sequence[Section]
  across: Sequence[Picture]
  unfinished: Table | None
  runs: Table | None
  left_out: Sequence[str]
  charts: str
  static: bool


def page(contents: Contents, *, live: str | None = None) -> str:
  """The HTML of the page.

  Args:
    contents: what to show.
    live: for a page that follows running runs, the version of the data that it shows.
  """
  sections = contents.sections
  script = "'use strict';\n(() => {\n" + "".join(_file(name) for name in _SCRIPTS) + "})();\n"
  style = _file("page.css")
  title = html.escape(_title(sections))
  followed = "" if live is None else f" data-live={live}"
  parts = [
    f"<!doctype html>\n<html lang=en{followed}><head><meta charset=utf-8>",
    f'<meta http-equiv=Content-Security-Policy content="{policy(script, style, live=live is not None)}">',
    '<meta name=viewport content="width=device-width, initial-scale=1">',
    f"<title>{title}</title><style>{style}</style></head><body>",
    f'<header><div class="top"><h1>{title}</h1>{_theme()}</div>',
    f'<p class="counts">{html.escape(_counts(contents))}</p>',
    *(["<p id=live></p>"] if live is not None else []),
    f"{_navigation(contents)}</header>",
    f"<main{' class=printed' if contents.static else ''}>",
    f'<div class="headlines">{"".join(_headline(s.setting) for s in sections)}</div>',
    _table_section("results", "Final results", contents.final),
    _table_section("going-on", "Unfinished runs", contents.unfinished),
    "" if sections else "<p>No run has been evaluated yet.</p>",
    *(_section(number, section) for number, section in enumerate(sections, 1)),
    _across_section(contents.across),
    _runs_section(contents.runs, contents.left_out),
    "</main>",
    f'<script type="application/json" id=data>{contents.charts}</script>',
    f"<div id=tip role=status hidden></div><script>{script}</script></body></html>\n",
  ]  # fmt: skip
  return "\n".join(part for part in parts if part)


def policy(script: str, style: str, *, live: bool) -> str:
  """The content security policy: this script, this style, images inside the page, and nothing else."""
  rules = [
    "default-src 'none'",
    "base-uri 'none'",
    "form-action 'none'",
    "img-src data:",
    f"script-src '{_hash(script)}'",
    f"style-src '{_hash(style)}'",
    *(["connect-src 'self'"] if live else []),
  ]
  return "; ".join(rules)


def _hash(text: str) -> str:
  return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _file(name: str) -> str:
  return (_BROWSER / name).read_text(encoding="utf-8")


def _theme() -> str:
  options = "".join(
    f'<option value="{value}">{text}</option>'
    for value, text in (("", "as the system"), ("light", "light"), ("dark", "dark"))
  )
  return f"<label hidden>Theme <select id=theme>{options}</select></label>"


def _navigation(contents: Contents) -> str:
  links = [("results", "Final results")] if contents.final else []
  links += [("going-on", "Unfinished runs")] if contents.unfinished else []
  links += [(f"setting-{i}", s.setting.label) for i, s in enumerate(contents.sections, 1)]
  links += [("across", "Settings and hyperparameters")] if contents.across else []
  links += [("all-runs", "Runs")]
  written = "".join(f'<a href="#{target}">{html.escape(text)}</a>' for target, text in links)
  return f"<nav>{written}</nav>"


def _title(sections: Sequence[Section]) -> str:
  tasks = dict.fromkeys(section.setting.task for section in sections)
  return f"Federated algorithms on {', '.join(tasks)}" if tasks else "Federated algorithms"


def _counts(contents: Contents) -> str:
  settings = [section.setting for section in contents.sections]
  counts = {
    "finished run": len(contents.runs.rows) if contents.runs else 0,
    "unfinished run": len(contents.unfinished.rows) if contents.unfinished else 0,
    "method": len({method.label for setting in settings for method in setting.methods}),
    "setting": len(settings),
  }
  return " · ".join(f"{n} {what}{'s' * (n > 1)}" for what, n in counts.items() if n)


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
    f'<div class="headline" title="Final: {DESCRIPTION}"><span>{html.escape(where)}</span>'
    f"<strong>{html.escape(value)}</strong><span>{html.escape(headline)}</span></div>"
  )


def _table_section(name: str, title: str, table: Table | None) -> str:
  return f"<section id={name}><h2>{title}</h2>{to_html(table)}</section>" if table else ""


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
    f'<p class="what">{html.escape(values)}</p>'
    f'<div class="interactive" data-setting="{number - 1}" hidden></div>'
    f'<div class="grid">{pictures}</div>'
    f"{''.join(to_html(table) for table in section.tables)}</section>"
  )


def _picture(picture: Picture, kind: str = "") -> str:
  data = base64.b64encode(picture.svg).decode()
  classes = [kind, "curves" if picture.charted else "", "tall" if picture.tall else ""]
  named = " ".join(filter(None, classes))
  return (
    f'<figure class="{named}"><h3>{html.escape(picture.title)}</h3>'
    f'<img alt="{html.escape(picture.alt)}" src="data:image/svg+xml;base64,{data}">'
    f"<figcaption>{html.escape(picture.caption)} <code>{html.escape(picture.files)}</code></figcaption>"
    "</figure>"
  )


def _across_section(pictures: Iterable[Picture]) -> str:
  drawn = "".join(map(_picture, pictures))
  return (
    f"<section id=across><h2>Settings and hyperparameters</h2><div class=grid>{drawn}</div></section>"
    if drawn
    else ""
  )


def _runs_section(runs: Table | None, left_out: Sequence[str]) -> str:
  listed = "".join(f"<li>{html.escape(text)}</li>" for text in left_out)
  missing = f"<figure><h3>Left out of the tables</h3><ul>{listed}</ul></figure>" if listed else ""
  table = to_html(runs) if runs else ""
  return f'<section id="all-runs"><h2>Runs</h2>{table}{missing}</section>'
