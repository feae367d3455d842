"""What the README and the docs say about the repository is true: links, paths, modules, flags, the map."""

import pathlib
import re

import pytest

from tests import ROOT
from tests.docs import pages

PAGES = pages.pages()
IDS = [page.relative_to(ROOT).as_posix() for page in PAGES]
each_page = pytest.mark.parametrize("page", PAGES, ids=IDS)

# Programs whose flags the docs use, with the sub-commands that have flags of their own.
PROGRAMS = (
  *(
    f"experiments/{name}.py"
    for name in ("run", "sweep", "report", "claims", "benchmark", "doctor", "describe")
  ),
  *(f"experiments/list_runs.py {action}" for action in ("list", "compare", "clean")),
  *(f"experiments/plot.py {kind}" for kind in ("curves", "drift_surface")),
  *(f"experiments/data.py {action}" for action in ("list", "fetch", "verify", "describe")),
  "-m tff_momentum.describe",
  "-m experiments.benchmarks.diagnostics_overhead",
)
# Flags of other people's programs, and those that absl gives every program.
FOREIGN = {
  "no-deps",
  "wheel",
  "extra",
  "strict",
  "save",
  "verbosity",
  "help",
  "cov",
  "xla_gpu_cuda_data_dir",
}
# Files that a run or a user makes, and paths inside other projects.
MADE = ("runs/", "report/", "dist/", "build/", "tff/", "tfds/", "mypackage", "/", "~", "http", "$")


def test_readme_is_short_and_narrow():
  lines = pages.text(pages.README).splitlines()
  assert len(lines) <= 150
  assert [line for line in lines if len(line) > 120] == []


@each_page
def test_links_and_anchors_resolve(page):
  for path, anchor in pages.links(page):
    target = (page.parent / path).resolve() if path else page
    assert target.exists(), path
    if anchor and target.suffix == ".md":
      assert anchor in pages.anchors(target), f"{path}#{anchor}"


@each_page
def test_every_page_of_the_docs_can_be_reached(page):
  reached = {
    (source.parent / path).resolve()
    for source in (pages.README, ROOT / "docs" / "index.md")
    for path, _ in pages.links(source)
  }
  assert page in reached or page.name in ("README.md", "index.md")


@each_page
def test_paths_exist(page):
  names = {pathlib.PurePosixPath(path).name for path in pages.tracked()}
  folders = {
    str(parent) for path in pages.tracked() for parent in pathlib.PurePosixPath(path).parents
  }
  roots = (ROOT, page.parent, ROOT / "tff_momentum", ROOT / "experiments")
  for code in pages.inline_code(page) + pages.commands(page):
    for word in re.findall(r"[\w./-]+", code):
      if word.startswith(MADE) or "..." in word:
        continue
      if re.fullmatch(r"[\w./-]+/[\w.-]+\.(py|md|sh|yaml|toml|lock|flags|ipynb|txt|in)", word):
        assert any((root / word).exists() for root in roots), word
      elif re.fullmatch(r"\w+\.py", word):
        assert word in names or page.name == "CHANGELOG.md", word  # which names what is gone
      elif re.fullmatch(r"(tff_momentum|tasks|experiments|tests|docs)/[\w/]*", word):
        assert word.rstrip("/") in folders, word


@each_page
def test_modules_and_names_exist(page):
  everything = pages.text(page)
  for name in re.findall(r"\b(?:tff_momentum|experiments|tasks|tests)(?:\.\w+)+", everything):
    if name.endswith((".py", ".md", "tff_momentum.git")):
      continue
    parts = name.split(".")
    for used in range(len(parts), 0, -1):
      stem = ROOT.joinpath(*parts[:used])
      file = stem.with_suffix(".py") if stem.with_suffix(".py").exists() else stem / "__init__.py"
      if file.exists():
        break
    else:
      pytest.fail(name)
    rest = parts[used:]
    assert not rest or re.search(rf"\b{rest[0]}\b", file.read_text()), name
  for name in re.findall(r"\btfm\.(\w+)", everything):
    assert re.search(rf'"{name}"', (ROOT / "tff_momentum" / "__init__.py").read_text()), name


@each_page
def test_flags_exist(page):
  known = {flag for program in PROGRAMS for flag in pages.flags_of(program)}
  for command in pages.commands(page) + pages.inline_code(page):
    program = max(
      (p for p in PROGRAMS if re.search(rf"(python|uv run) {re.escape(p)}\b", command)),
      key=len,
      default=None,
    )
    allowed = pages.flags_of(program) if program else known
    if program is None and not command.startswith("--"):
      continue  # somebody else's program
    for flag in re.findall(r"(?<!\S)--([a-z][\w-]*)", command.split(" --extra ")[0]):
      bare = flag.removeprefix("no") if flag.startswith("nostop") else flag
      assert bare in allowed or flag in FOREIGN, f"--{flag} in: {command}"


def test_no_private_citation_keys_and_no_package_registries():
  forbidden = re.compile(r"\[00[0-4]\]|py" + r"pi\.|python" + r"hosted|\.\./shared/(?!data/)")
  for path in pages.tracked():
    if path.endswith((".png", ".flags")):
      continue
    found = forbidden.search((ROOT / path).read_text(encoding="utf-8", errors="replace"))
    assert found is None, (path, found)


def test_the_readme_map_is_the_tree():
  (drawn,) = [
    block for block in pages.blocks(pages.README, "") if block.startswith("tff_momentum/")
  ]
  mapped: set[str] = set()
  top = ""
  for line in drawn.splitlines():
    names = re.findall(r"(?<!\S)\(?(\w+/|\w+\.py)(?=[,\s]|$)", line)
    if not line.startswith(" "):
      top = names.pop(0)
      mapped.add(top)
    mapped.update(top + name for name in names if not _is_mention(line, name))
  below = {"tff_momentum/runtime/rewrite/", "tff_momentum/runtime/ray/"}
  there = set()
  for path in pages.tracked():
    parts = path.split("/")
    if parts[0] in ("tff_momentum", "tasks", "experiments"):
      there.add(f"{parts[0]}/")
      if len(parts) > 2:
        there.add(f"{parts[0]}/{parts[1]}/")
      elif parts[1].endswith(".py") and not parts[1].startswith("_") and parts[0] != "tasks":
        there.add(path)
  there |= {"tests/", "tests/oracle/"}
  mapped -= {"tff_momentum/rewrite/", "tff_momentum/ray/"}
  assert all((ROOT / path).is_dir() for path in below)
  assert mapped == there


def _is_mention(line: str, name: str) -> bool:
  """Whether a line only speaks of a room, as the first does of those that import TFF."""
  return "import TFF" in line and name in ("processes/", "runtime/")
