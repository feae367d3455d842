"""Reads the repository's source as text: which modules a file imports, which classes it defines.

Nothing is executed, so an import inside a function counts as much as one at the top of the file.
"""

import ast
import pathlib
from collections.abc import Iterator
from typing import NamedTuple


class Import(NamedTuple):
  """One imported module: its dotted name, the line, and whether importing the file runs it."""

  module: str
  line: int
  at_top: bool


def python_files(root: pathlib.Path, *rooms: str) -> list[pathlib.Path]:
  """All Python files in these folders of `root`, in a fixed order."""
  return sorted(path for room in rooms for path in (root / room).rglob("*.py"))


def imports(path: pathlib.Path, root: pathlib.Path) -> list[Import]:
  """Everything that a file imports.

  `from a import b` counts as `a.b`, for b may be a module. `importlib.import_module("a")` with a literal
  counts too. Imports under `if TYPE_CHECKING:` never run; they count, but not as imports at the top.
  """
  package = path.relative_to(root).parent.parts
  return list(_imports(ast.parse(path.read_text()).body, package, at_top=True))


def _imports(
  nodes: list[ast.stmt] | list[ast.AST], package: tuple[str, ...], *, at_top: bool
) -> Iterator[Import]:
  for node in nodes:
    match node:
      case ast.Import(names=names):
        yield from (Import(name.name, node.lineno, at_top) for name in names)
      case ast.ImportFrom(module=module, names=names, level=level):
        base = [*package[: len(package) + 1 - level]] if level else []
        start = ".".join([*base, *([module] if module else [])])
        yield from (Import(f"{start}.{name.name}", node.lineno, at_top) for name in names)
      case ast.Call(
        func=ast.Attribute(attr="import_module") | ast.Name(id="import_module" | "__import__"),
        args=[ast.Constant(value=str(module)), *_],
      ):
        yield Import(module, node.lineno, at_top)
    later = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
    if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
      later = True
    children = list(ast.iter_child_nodes(node))
    yield from _imports(children, package, at_top=at_top and not later)


def is_inside(module: str, *packages: str) -> bool:
  """Whether a module is one of these packages, or lies inside one."""
  return any(module == package or module.startswith(package + ".") for package in packages)


def public_classes(path: pathlib.Path) -> list[str]:
  """The names of the public classes that a file defines at its top level."""
  body = ast.parse(path.read_text()).body
  names = [node.name for node in body if isinstance(node, ast.ClassDef)]
  return [name for name in names if not name.startswith("_")]
