"""The code never executes what it reads from a disk or from a user."""

import ast

from tests import ROOT

PARTS = ("tff_momentum", "tasks", "experiments")
# Calls that execute what they read. Messages between Ray processes are pickled, and a builder for the process
# that audits it, but never stored on disk.
FORBIDDEN = {"eval", "exec", "pickle.load", "pickle.loads", "yaml.load", "os.system", "marshal.loads",
             "dill.loads", "cloudpickle.loads", "shelve.open"}  # fmt: skip
ALLOWED = {
  ("tff_momentum/runtime/ray/wire.py", "pickle.loads"),
  ("tff_momentum/testing/gpu.py", "pickle.load"),
}


def calls():
  for path in (path for part in PARTS for path in (ROOT / part).rglob("*.py")):
    for node in ast.walk(ast.parse(path.read_text())):
      if isinstance(node, ast.Call):
        yield path.relative_to(ROOT).as_posix(), ast.unparse(node.func), node


def test_no_call_executes_what_it_reads():
  assert {(path, name) for path, name, _ in calls() if name in FORBIDDEN} <= ALLOWED


def test_no_shell_runs_user_input_and_no_array_is_unpickled():
  for path, name, node in calls():
    given = {keyword.arg: ast.unparse(keyword.value) for keyword in node.keywords}
    assert given.get("shell", "False") == "False", (path, name)
    assert given.get("allow_pickle", "False") == "False", (path, name)
