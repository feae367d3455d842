"""The documentation's text, taken apart: pages, links, anchors, commands, inline code."""

import functools
import pathlib
import re
import subprocess
import sys

from tests import ROOT

README = ROOT / "README.md"


def pages() -> list[pathlib.Path]:
  """Everything that people read, README first."""
  own = [README, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]
  return [*own, *sorted((ROOT / "docs").glob("*.md")), ROOT / "experiments" / "RESULTS.md"]


def text(page: pathlib.Path) -> str:
  return page.read_text(encoding="utf-8")


def _split(page: pathlib.Path) -> tuple[str, list[tuple[str, str]]]:
  """A page's prose, and its fenced blocks with their languages."""
  outside, fenced = [], []
  language: str | None = None
  inside: list[str] = []
  for line in text(page).splitlines():
    if line.startswith("```") and language is None:
      language, inside = line[3:], []
    elif line == "```":
      fenced.append((language or "", "\n".join(inside) + "\n"))
      language = None
    else:
      (outside if language is None else inside).append(line)
  assert language is None, f"{page}: a code block has no end"
  return "\n".join(outside), fenced


def blocks(page: pathlib.Path, language: str) -> list[str]:
  """The fenced code blocks of one language."""
  return [block for found, block in _split(page)[1] if found == language]


def prose(page: pathlib.Path) -> str:
  """The page without its fenced blocks."""
  return _split(page)[0]


def inline_code(page: pathlib.Path) -> list[str]:
  return [" ".join(code.split()) for code in re.findall(r"`([^`]+)`", prose(page))]


def commands(page: pathlib.Path) -> list[str]:
  """The commands of the console blocks, continued lines joined, comments cut off."""
  found = []
  for block in blocks(page, "console"):
    for line in block.replace("\\\n", " ").splitlines():
      if line.startswith("$ "):
        found.append(" ".join(re.split(r"\s#\s", line[2:])[0].split()))
  return found


def anchors(page: pathlib.Path) -> set[str]:
  """The anchors of a page's headings, as GitHub and MkDocs both make them for plain words."""
  headings = re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
  return {slug(heading) for heading in headings}


def slug(heading: str) -> str:
  kept = re.sub(r"[^\w\- ]", "", heading.lower(), flags=re.ASCII if heading.isascii() else 0)
  return kept.strip().replace(" ", "-")


def links(page: pathlib.Path) -> list[tuple[str, str]]:
  """The relative links of a page: (path, anchor), either of them maybe empty."""
  found = []
  for target in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
    if "://" not in target:
      path, _, anchor = target.partition("#")
      found.append((path, anchor))
  return found


@functools.cache
def tracked() -> list[str]:
  """The paths of all files that git knows."""
  done = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
  return [path for path in done.stdout.splitlines() if (ROOT / path).exists()]


@functools.cache
def flags_of(program: str) -> frozenset[str]:
  """The flags that a program's --help names; `program` may end with a sub-command."""
  command = [sys.executable, *program.split(), "--help"]
  done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
  assert done.returncode == 0, (command, done.stderr)
  return frozenset(re.findall(r"--([a-z]\w*)", done.stdout))
