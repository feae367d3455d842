"""Tables as HTML, Markdown, LaTeX and CSV; all texts are escaped on output."""

import base64
import csv
import dataclasses
import html
import io
import re
from collections.abc import Sequence

_LATEX = {"\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#", "%": r"\%",
          "_": r"\_", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}",
          ">": r"\textgreater{}", "|": r"\textbar{}", '"': "''", "`": r"\textasciigrave{}",
          "×": r"$\times$", "±": r"$\pm$", "↓": r"$\downarrow$", "↑": r"$\uparrow$", "–": "--", "−": "$-$",
          "†": r"$\dagger$", "’": "'", "“": "``", "”": "''", "[": "{[}", "]": "{]}",
          "·": r"$\cdot$", "≥": r"$\geq$", "α": r"$\alpha$", "β": r"$\beta$", "τ": r"$\tau$"}  # fmt: skip


LONG = 16  # a table with more rows may be folded


@dataclasses.dataclass(frozen=True)
class TableCell:
  """One cell of a table.

  Attributes:
    text: the text.
    place: 1 for the best value of a column, 2 for the second best, else 0.
    change: the change relative to FedAvg in percent.
    value: the number that the text shows, for CSV; None if the text is not a number.
    deviation: the standard deviation over seeds in the text, for CSV.
  """

  text: str
  place: int = 0
  change: float | None = None
  value: float | None = dataclasses.field(default=None, compare=False)
  deviation: float | None = dataclasses.field(default=None, compare=False)

  @property
  def arrow(self) -> str:
    """The change as text, as in `↓ 50.0%`; a decrease is a saving."""
    if self.change is None:
      return ""
    sign = "↓ " if self.change < -0.05 else "↑ " if self.change > 0.05 else "= "
    return f"{sign}{abs(self.change):.1f}%"


@dataclasses.dataclass(frozen=True)
class Table:
  """A table; the first column names the rows.

  Attributes:
    name: its file name without suffix.
    title: its title.
    caption: the sentences below it.
    header: the names of the columns.
    rows: the cells.
    foldable: whether the page may fold it if it is long.
    texts: whether the columns hold texts, which are aligned to the left.
    notes: what the title says of the data, such as "synthetic data"; CSV has no title and says it in the
      header.
  """

  name: str
  title: str
  caption: str
  header: Sequence[str]
  rows: Sequence[Sequence[TableCell]]
  foldable: bool = False
  notes: Sequence[str] = ()
  texts: bool = False


class FileNames:
  """Gives every file of a report a distinct name that is safe in any folder."""

  def __init__(self) -> None:
    self._used: set[tuple[str, str]] = set()

  def distinct(self, kind: str, text: str) -> str:
    """A name made from a text, without a suffix; `kind` is `figure` or `table`."""
    base = re.sub(r"[^a-z0-9.=-]+", "_", text.lower()).strip("_.")[:80] or kind
    name, number = base, 1
    while (kind, name) in self._used:
      number += 1
      name = f"{base}_{number}"
    self._used.add((kind, name))
    return name

  def table(self, table: Table, prefix: str) -> Table:
    """The table, with its name in full."""
    return dataclasses.replace(table, name=self.distinct("table", f"{prefix}_{table.name}"))


def to_html(table: Table) -> str:
  """The table as an HTML figure."""
  head = "".join(f"<th scope=col>{html.escape(text)}</th>" for text in table.header)
  body = "".join(
    "<tr>" + "".join(_html_cell(cell, i == 0) for i, cell in enumerate(row)) + "</tr>\n"
    for row in table.rows
  )
  data = base64.b64encode(to_csv(table).encode()).decode()
  link = f'<a class="csv" download="{html.escape(table.name)}.csv" href="data:text/csv;base64,{data}">CSV</a>'
  kind = "table texts" if table.texts else "table"
  inner = f'<div class="scroll"><table><thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody></table></div>'
  return (
    f'<figure class="{kind}" id="{html.escape(table.name)}"><h3>{html.escape(table.title)} {link}</h3>\n'
    f"{folded(inner, len(table.rows)) if table.foldable else inner}\n"
    f"<figcaption>{html.escape(table.caption)}</figcaption></figure>\n"
  )


def folded(table: str, rows: int) -> str:
  """A table; if it is long, it is collapsed until the reader opens it."""
  return f"<details><summary>{rows} rows</summary>{table}</details>" if rows > LONG else table


def _html_cell(cell: TableCell, is_name: bool) -> str:
  tag = "th scope=row" if is_name else "td"
  text = html.escape(cell.text)
  text = {1: f"<b>{text}</b>", 2: f"<u>{text}</u>"}.get(cell.place, text)
  if cell.arrow:
    kind = {"↓": "saved", "↑": "extra"}.get(cell.arrow[0], "same")
    text += f' <span class="{kind}">{html.escape(cell.arrow)}</span>'
  return f"<{tag}>{text}</{tag.split()[0]}>"


def to_markdown(table: Table) -> str:
  """The table as GitHub-flavoured Markdown."""
  lines = [f"**{_markdown(table.title)}**", "", _markdown_row(map(_markdown, table.header))]
  others = ":--" if table.texts else "--:"
  lines.append(_markdown_row([":--", *[others] * (len(table.header) - 1)]))
  for row in table.rows:
    lines.append(_markdown_row(_markdown_cell(cell) for cell in row))
  return "\n".join([*lines, "", _markdown(table.caption), ""])


def _markdown_row(texts) -> str:
  return "| " + " | ".join(texts) + " |"


def _markdown(text: str) -> str:
  return re.sub(r"([\\`*_{}\[\]<>|$~#&])", r"\\\1", " ".join(text.split()))


def _markdown_cell(cell: TableCell) -> str:
  text = _markdown(cell.text)
  text = {1: f"**{text}**", 2: f"<u>{text}</u>"}.get(cell.place, text)
  return f"{text} {cell.arrow}".strip()


def to_csv(table: Table) -> str:
  """The table as CSV: numbers without units, and columns of their own for deviations and changes.

  A text that a spreadsheet would take for a formula gets an apostrophe in front.

  >>> cells = [TableCell("FedAvg"), TableCell("60.0 ± 1.5", value=60.0, deviation=1.5)]
  >>> print(to_csv(Table("final", "", "", ["Method", "Accuracy (%)"], [cells])), end="")
  Method,Accuracy (%),"Accuracy (%), standard deviation"
  FedAvg,60.0,1.5
  """
  parts = [  # what each column needs
    (
      any(row[i].deviation is not None for row in table.rows),
      any(row[i].change is not None for row in table.rows),
    )
    for i in range(len(table.header))
  ]
  header: list[str | float] = []
  first = table.header[0] + (f" ({', '.join(table.notes)})" if table.notes else "")
  for name, (spread, changed) in zip([first, *table.header[1:]], parts, strict=True):
    header += [_csv_text(name)]
    header += [f"{_csv_text(name)}, standard deviation"] if spread else []
    header += [f"{_csv_text(name)}, change in %"] if changed else []
  rows = [header]
  for row in table.rows:
    written: list[str | float] = []
    for cell, (spread, changed) in zip(row, parts, strict=True):
      written += [_csv_text(cell.text) if cell.value is None else cell.value]
      written += ["" if cell.deviation is None else cell.deviation] if spread else []
      written += ["" if cell.change is None else round(cell.change, 4)] if changed else []
    rows.append(written)
  text = io.StringIO()
  csv.writer(text, lineterminator="\n").writerows(rows)
  return text.getvalue()


def _csv_text(text: str) -> str:
  line = " ".join(text.split())
  return f"'{line}" if line.startswith(("=", "+", "-", "@")) else line


def to_latex(table: Table) -> str:
  """The table as LaTeX; needs the package booktabs."""
  columns = "l" + ("l" if table.texts else "r") * (len(table.header) - 1)
  lines = [r"\begin{table}[t]", r"  \centering",
           f"  \\caption{{{latex(table.title)}. {latex(table.caption)}}}",
           f"  \\label{{tab:{re.sub('[^a-z0-9]+', '-', table.name.lower())}}}",
           f"  \\begin{{tabular}}{{{columns}}}", r"    \toprule",
           "    " + " & ".join(map(latex, table.header)) + r" \\", r"    \midrule"]  # fmt: skip
  lines += ["    " + " & ".join(map(_latex_cell, row)) + r" \\" for row in table.rows]
  return "\n".join([*lines, r"    \bottomrule", r"  \end{tabular}", r"\end{table}", ""])


def latex(text: str) -> str:
  """A text escaped for LaTeX; characters that pdfLaTeX may not have become question marks."""
  written = (
    _LATEX.get(c, c if c.isascii() or "À" <= c <= "ÿ" else "?") for c in " ".join(text.split())
  )
  return "".join(c for c in written if len(c) > 1 or c.isprintable())


def _latex_cell(cell: TableCell) -> str:
  text = latex(cell.text)
  text = {1: rf"\textbf{{{text}}}", 2: rf"\underline{{{text}}}"}.get(cell.place, text)
  return f"{text} {latex(cell.arrow)}".strip()
