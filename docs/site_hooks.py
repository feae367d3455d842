"""MkDocs hooks: an API page for every module, and pages for the repository's files that the docs link to.

The pages under docs/ link to files outside that folder with relative paths, so that the links work where the
repository itself is browsed. On the site, a link to a module of the library becomes a link to its API page;
other Markdown files become pages, and everything else is copied.
"""

import pathlib
import posixpath
import re

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = pathlib.Path(__file__).resolve().parents[1]
PACKAGE = "tff_momentum"
SKIPPED = {"__main__", "_moved"}
LINK = re.compile(r"(\]\()([^)\s#]+)(#[^)\s]*)?(\))")
# Pages of the site that are files elsewhere in the repository.
# README.md has another name there: MkDocs would take it for the home page.
PAGES = {
  "README.md": "overview.md",
  "CONTRIBUTING.md": "CONTRIBUTING.md",
  "CHANGELOG.md": "CHANGELOG.md",
  "experiments/RESULTS.md": "experiments/RESULTS.md",
}


def modules() -> dict[str, str]:
  """Every public module of the library with the path of its page."""
  found = {}
  for path in sorted((ROOT / PACKAGE).rglob("*.py")):
    parts = list(path.relative_to(ROOT).with_suffix("").parts)
    if parts[-1] == "__init__":
      parts.pop()
    if not SKIPPED & set(parts):
      found[".".join(parts)] = f"api/{'.'.join(parts)}.md"
  return found


def on_config(config: MkDocsConfig) -> MkDocsConfig:
  """Adds the API reference to the navigation, one section for each package."""
  sections: dict[str, list[dict[str, str]]] = {}
  for name, page in modules().items():
    below = name.split(".")[1:]
    is_package = (ROOT / pathlib.Path(*name.split("."))).is_dir()
    section = ".".join(below if is_package else below[:-1]) or PACKAGE
    sections.setdefault(section, []).append({name: page})
  assert config.nav is not None
  config.nav.append({"API": [{section: pages} for section, pages in sections.items()]})
  return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
  """Adds the generated pages, the pages from elsewhere, and what they link to."""
  for name, page in modules().items():
    files.append(File.generated(config, page, content=f"::: {name}\n"))
  for source, page in PAGES.items():
    files.append(File.generated(config, page, abs_src_path=str(ROOT / source)))
  documents = [*(ROOT / "docs").glob("*.md"), *(ROOT / source for source in PAGES)]
  for document in documents:
    for _, target, _, _ in LINK.findall(document.read_text(encoding="utf-8")):
      path = _in_repository(document.parent.relative_to(ROOT).as_posix(), target)
      if path and _site_path(path) == path and files.get_file_from_path(path) is None:
        files.append(File.generated(config, path, abs_src_path=str(ROOT / path)))
  return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
  """Points links at the places that the targets have on the site."""
  here = page.file.src_path
  sources = {place: source for source, place in PAGES.items()}
  folder = posixpath.dirname(sources.get(here, f"docs/{here}"))

  def moved(match: re.Match[str]) -> str:
    before, target, anchor, after = match.groups(default="")
    path = _in_repository(folder, target)
    if not path:
      return match[0]
    place = posixpath.relpath(_site_path(path), posixpath.dirname(here) or ".")
    return f"{before}{place}{anchor}{after}"

  return LINK.sub(moved, markdown)


def _in_repository(folder: str, target: str) -> str | None:
  """The path, from the repository's root, of the file that a link means; None for other links."""
  if "://" in target or target.startswith("mailto:"):
    return None
  path = posixpath.normpath(posixpath.join(folder, target))
  return path if (ROOT / path).exists() else None


def _site_path(path: str) -> str:
  """Where a file of the repository is on the site."""
  if path in PAGES:
    return PAGES[path]
  if path.startswith("docs/"):
    return path.removeprefix("docs/")
  name = path.removesuffix(".py").replace("/", ".").removesuffix(".__init__")
  return modules().get(name, path)
