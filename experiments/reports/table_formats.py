"""Tables as HTML, Markdown and LaTeX; all texts are escaped on output."""

import dataclasses
import html
import re
from collections.abc import Sequence

_LATEX = {"\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#", "%": r"\%",
          "_": r"\_", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}",
          ">": r"\textgreater{}", "|": r"\textbar{}", '"': "''", "`": r"\textasciigrave{}",
          "×": r"$\times$", "±": r"$\pm$", "↓": r"$\downarrow$", "↑": r"$\uparrow$", "–": "--", "−": "$-$",
          "†": r"$\dagger$", "’": "'", "[": "{[}", "]": "{]}",
          "·": r"$\cdot$", "≥": r"$\geq$", "α": r"$\alpha$", "β": r"$\beta$", "τ": r"$\tau$"}  # fmt: skip


LONG = 16  # a table with more rows may be folded


@dataclasses.dataclass(frozen=True)
class TableCell:
  """One cell of a table.

  Attributes:
    text: the text.
    place: 1 for the best value of a column, 2 for the second best, else 0.
    change: the change relative to FedAvg in percent.
  """

  text: str
  place: int = 0
  change: float | None = None

  @property
  def arrow(self) -> str:
    """The change as text, as in `↓ 50.0%`; a decrease is a saving."""
    if self.change is None:
      return ""
    sign = "↓ " if self.change < -0.05 else "↑ " if self.change > 0.05 else "= "
    return f"{sign}{abs(self.change):.1f}%"


@dataclasses.dataclass(frozen=True)
class Table:
  """A table; `name` is its file name without suffix; the first column names the rows."""

  name: str
  title: str
  caption: str
  header: Sequence[str]
  rows: Sequence[Sequence[TableCell]]


def to_html(table: Table) -> str:
  """The table as an HTML figure."""
  head = "".join(f"<th scope=col>{html.escape(text)}</th>" for text in table.header)
  body = "".join(
    "<tr>" + "".join(_html_cell(cell, i == 0) for i, cell in enumerate(row)) + "</tr>\n"
    for row in table.rows
  )
  inner = f'<div class="scroll"><table><thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody></table></div>'
  return (
    f'<figure class="table" id="{html.escape(table.name)}"><h3>{html.escape(table.title)}</h3>\n'
    f"{folded(inner, len(table.rows)) if table.name == 'cells' else inner}\n"
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
  lines.append(_markdown_row([":--", *["--:"] * (len(table.header) - 1)]))
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


def to_latex(table: Table) -> str:
  """The table as LaTeX; needs the package booktabs."""
  lines = [r"\begin{table}[t]", r"  \centering",
           f"  \\caption{{{latex(table.title)}. {latex(table.caption)}}}",
           f"  \\label{{tab:{re.sub('[^a-z0-9]+', '-', table.name.lower())}}}",
           f"  \\begin{{tabular}}{{l{'r' * (len(table.header) - 1)}}}", r"    \toprule",
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
