"""The boundaries between packages: what may import what. Also the sizes of files and the names of classes.

Each rule is checked on the repository and shown to fail on a small tree that breaks it.
"""

import ast
import collections
import pathlib
import subprocess
import sys
from typing import NamedTuple

import pytest

from tests import ROOT
from tests.helpers import source_tree

ROOMS = ("tff_momentum", "tasks", "experiments")
MAX_LINES, MAX_ALGORITHM_LINES = 400, 150
# Modules that an algorithm file may use beside Python, TensorFlow and other algorithm files.
ALGORITHM_VOCABULARY = tuple(
  f"tff_momentum.{name}"
  for name in (
    "adaptive_steps", "algorithm", "algorithms", "call_syntax", "client", "default_rates", "models",
    "optimizers", "reference_lines", "registry", "schedules", "transforms", "trees", "user_code",
    "validation", "wire_bytes",
  )
)  # fmt: skip
# Class names that each algorithm file defines for itself: its own server state, messages and so on.
SHARED_CLASS_NAMES = {"ClientState", "Message", "MvrState", "ServerState", "Upload"}


class Rule(NamedTuple):
  """Files under `rooms` import none of `forbidden`, but for exceptions: path -> reason.

  An exception is a file or a folder. With `only_at_top`, imports inside functions are allowed.
  """

  rooms: tuple[str, ...]
  forbidden: tuple[str, ...]
  exceptions: dict[str, str] = {}  # noqa: RUF012 (never changed)
  only_at_top: bool = False


RULES = {
  "the library stands alone: the wheel ships it without tasks and experiments": Rule(
    ("tff_momentum",), ("tasks", "experiments")
  ),
  "TFF stays in processes, runtime, diagnostics and the testing kit's runtimes": Rule(
    ("tff_momentum",),
    ("tensorflow_federated",),
    {
      "tff_momentum/processes": "turns an algorithm into a TFF process",
      "tff_momentum/runtime": "executes TFF computations",
      "tff_momentum/diagnostics": "a measure is a federated computation over a process's own types",
      "tff_momentum/testing/runtimes.py": "runs one process on several runtimes",
    },
  ),
  "an algorithm knows nothing of data, processes or simulation": Rule(
    ("tff_momentum/algorithms", "tff_momentum/transforms"),
    (
      "tensorflow_federated",
      "tensorflow_datasets",
      "tff_momentum.processes",
      "tff_momentum.simulation",
      "tff_momentum.diagnostics",
      "tff_momentum.runtime",
    ),
  ),
  "the runtime executes any TFF computation and knows nothing of algorithms": Rule(
    ("tff_momentum/runtime",),
    tuple(
      f"tff_momentum.{room}" for room in ("algorithms", "processes", "simulation", "diagnostics")
    ),
  ),
  "a task knows nothing of algorithms": Rule(
    ("tasks",),
    tuple(
      f"tff_momentum.{room}" for room in ("algorithms", "processes", "simulation", "diagnostics")
    ),
  ),
  "tasks do not know the experiments": Rule(("tasks",), ("experiments",)),
  "flags are read and checked before TensorFlow is loaded": Rule(
    ("experiments/cli",), ("tensorflow", "tensorflow_federated", "keras"), only_at_top=True
  ),
  "the product does not import its tests": Rule(
    ROOMS,
    ("tests", "pytest", "hypothesis"),
    {"tff_momentum/testing/pytest_plugin.py": "pytest alone imports it"},
  ),
  "the testing kit is for tests alone": Rule(
    ROOMS, ("tff_momentum.testing",), {"tff_momentum/testing": "the kit itself"}
  ),
}


def broken_imports(root: pathlib.Path, rule: Rule) -> list[str]:
  """One line for each import that breaks the rule."""
  found = []
  for path in source_tree.python_files(root, *rule.rooms):
    place = path.relative_to(root)
    if any(place.is_relative_to(allowed) for allowed in rule.exceptions):
      continue
    for imported in source_tree.imports(path, root):
      if rule.only_at_top and not imported.at_top:
        continue
      if source_tree.is_inside(imported.module, *rule.forbidden):
        found.append(f"{place}:{imported.line} imports {imported.module}")
  return found


@pytest.mark.parametrize("name", RULES)
def test_no_import_crosses_a_boundary(name):
  assert broken_imports(ROOT, RULES[name]) == []


@pytest.mark.parametrize("name", RULES)
def test_every_exception_is_needed(name):
  rule = RULES[name]
  for place in rule.exceptions:
    others = {path: why for path, why in rule.exceptions.items() if path != place}
    assert broken_imports(ROOT, rule._replace(exceptions=others)), (
      f"{place} follows the rule now: remove the exception"
    )


WAYS_TO_IMPORT = [
  "import {package}",
  "import {module} as other",
  "from {package} import {rest}",
  "from {module} import something",
  "if True:\n  import {module}",
  "try:\n  pass\nfinally:\n  import {module}",
]
WAYS_TO_IMPORT_LATER = [
  "def f():\n  import {module}",
  "def f():\n  return importlib.import_module('{module}')",
  "class C:\n  async def f(self):\n    from {module} import something",
  "if typing.TYPE_CHECKING:\n  import {module}",
]


@pytest.mark.parametrize("way", WAYS_TO_IMPORT + WAYS_TO_IMPORT_LATER)
@pytest.mark.parametrize("name", RULES)
def test_a_forbidden_import_is_found(tmp_path, name, way):
  rule = RULES[name]
  for room in rule.rooms:
    for forbidden in rule.forbidden:
      path = tmp_path / room / "deep" / "file.py"
      path.parent.mkdir(parents=True, exist_ok=True)
      package, _, rest = forbidden.rpartition(".")
      package, rest = (package, rest) if package else (forbidden, "x")
      text = way.format(package=package, rest=rest, module=forbidden)
      if package != forbidden and way == "import {package}":
        continue  # `import tff_momentum` alone does not load the forbidden room
      path.write_text(text + "\n")
      expected = 0 if rule.only_at_top and way in WAYS_TO_IMPORT_LATER else 1
      assert len(broken_imports(tmp_path, rule)) == expected, text
      path.unlink()


def test_a_relative_import_is_found(tmp_path):
  path = tmp_path / "tff_momentum" / "algorithms" / "file.py"
  path.parent.mkdir(parents=True)
  path.write_text("from ..simulation import loop\n")
  rule = RULES["an algorithm knows nothing of data, processes or simulation"]
  assert broken_imports(tmp_path, rule) == [
    "tff_momentum/algorithms/file.py:1 imports tff_momentum.simulation.loop"
  ]


def test_names_that_only_look_alike_are_allowed(tmp_path):
  path = tmp_path / "tasks" / "file.py"
  path.parent.mkdir()
  path.write_text("import experiments_of_others\nfrom tests_of_others import experiments\n")
  assert not any(broken_imports(tmp_path, rule) for rule in RULES.values())


def test_an_algorithm_uses_only_the_vocabulary():
  found = []
  for path in source_tree.python_files(ROOT, "tff_momentum/algorithms"):
    for imported in source_tree.imports(path, ROOT):
      ours = source_tree.is_inside(imported.module, *ROOMS)
      if ours and not source_tree.is_inside(imported.module, *ALGORITHM_VOCABULARY):
        found.append(f"{path.name}:{imported.line} imports {imported.module}")
  assert found == []


def test_the_command_line_loads_without_tensorflow():
  """The rule above reads the files of `experiments/cli`; this test imports them and all that they import."""
  names = [
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    for path in source_tree.python_files(ROOT, "experiments/cli")
  ]
  code = f"""
import importlib, sys
for name in {names!r}:
  importlib.import_module(name)
print(sorted({{name.split(".")[0] for name in sys.modules}}
             & {{"tensorflow", "tensorflow_federated", "keras", "jax", "matplotlib"}}))
"""
  command = [sys.executable, "-c", code]
  found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
  assert found.strip() == "[]"


# Sizes, names and places.


def too_long(root: pathlib.Path) -> list[str]:
  found = []
  for path in source_tree.python_files(root, *ROOMS, "tests"):
    place = path.relative_to(root)
    limit = MAX_ALGORITHM_LINES if place.is_relative_to("tff_momentum/algorithms") else MAX_LINES
    if (lines := len(path.read_text().splitlines())) > limit:
      found.append(f"{place} has {lines} lines; at most {limit}")
  return found


def test_files_are_short():
  assert too_long(ROOT) == []


def test_long_files_are_found(tmp_path):
  for place, lines in {
    "tff_momentum/algorithms/long.py": 151,
    "tff_momentum/algorithms/short.py": 150,
    "tasks/long.py": 401,
    "tests/deep/short.py": 400,
  }.items():
    (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / place).write_text("x = 1\n" * lines)
  assert too_long(tmp_path) == [
    "tasks/long.py has 401 lines; at most 400",
    "tff_momentum/algorithms/long.py has 151 lines; at most 150",
  ]


def homes_of_classes(root: pathlib.Path) -> dict[str, list[str]]:
  """Public class name -> the files that define it."""
  homes = collections.defaultdict(list)
  for path in source_tree.python_files(root, *ROOMS):
    for name in source_tree.public_classes(path):
      homes[name].append(str(path.relative_to(root)))
  return homes


def several_meanings(root: pathlib.Path) -> dict[str, list[str]]:
  """Public class names that more than one file defines."""
  found = {}
  for name, homes in homes_of_classes(root).items():
    algorithms_alone = all(
      home.startswith(("tff_momentum/algorithms/", "tff_momentum/transforms/")) for home in homes
    )
    if len(homes) > 1 and not (name in SHARED_CLASS_NAMES and algorithms_alone):
      found[name] = homes
  return found


def test_a_class_name_has_one_meaning():
  assert several_meanings(ROOT) == {}


def test_shared_class_names_are_all_in_use():
  assert set(homes_of_classes(ROOT)) >= SHARED_CLASS_NAMES


def test_a_second_meaning_is_found(tmp_path):
  for place, name in {
    "tasks/one.py": "Entry",
    "experiments/two.py": "Entry",
    "tff_momentum/algorithms/one.py": "Upload",
    "tff_momentum/algorithms/two.py": "Upload",
    "experiments/three.py": "_Private",
    "experiments/four.py": "_Private",
  }.items():
    (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / place).write_text(f"class {name}:\n  pass\n")
  assert several_meanings(tmp_path) == {"Entry": ["experiments/two.py", "tasks/one.py"]}


def test_the_tests_mirror_the_source():
  """Each folder of tests is named after a folder of the library or of the repository."""
  own = {"helpers", "oracle"}
  for path in (ROOT / "tests").rglob("__init__.py"):
    place = path.parent.relative_to(ROOT / "tests")
    if place.parts and place.parts[0] not in own:
      folders = [ROOT / place, ROOT / "tff_momentum" / place]
      assert any(folder.is_dir() for folder in folders), place


ALGORITHM_FILES = [
  path
  for path in source_tree.python_files(ROOT, "tff_momentum/algorithms")
  if path.name != "__init__.py"
]


@pytest.mark.parametrize("path", ALGORITHM_FILES, ids=lambda path: path.stem)
def test_an_algorithm_links_its_paper(path):
  docstring = ast.get_docstring(ast.parse(path.read_text())) or ""
  assert "https://" in docstring, (
    "the docstring must carry the link of the paper, as docs/papers.md has it"
  )
