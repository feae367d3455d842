"""Whatever a user types or a disk holds: one sentence, never another exception, never a file elsewhere.

TFM_FUZZ=10000 in the environment asks for so many examples in all; CI takes fewer.
"""

import contextlib
import html.parser
import io
import json
import os
import pathlib
import shutil
import sqlite3
import tempfile
import warnings

import numpy as np
import pytest
from absl import flags
from hypothesis import HealthCheck, example, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

import tasks
from experiments.cli import errors, presets, run_request
from experiments.cli import flags as cli_flags
from experiments.reports import comparison, writer
from experiments.runs import folder as output
from experiments.runs import reader
from tasks.data import sqlite
from tasks.data.folders import DataError
from tests.helpers import report_runs, shared_runs
from tff_momentum import optimizers, schedules
from tff_momentum.registry import ALGORITHMS
from tff_momentum.simulation import checkpoints, client_store, distributions
from tff_momentum.transforms import by_name, compression

EXAMPLES = int(os.environ.get("TFM_FUZZ", 1000))


def examples(share: float):
  """Settings of a test that takes this share of all examples."""
  return hypothesis_settings(
    max_examples=max(2, int(EXAMPLES * share)),
    deadline=None,
    suppress_health_check=list(HealthCheck),
    derandomize="TFM_FUZZ" not in os.environ,  # who asks for more wants others
  )


@contextlib.contextmanager
def only(kind: type[Exception], about: str = ""):
  """Lets errors of this kind pass, if they say something, and what they are about."""
  try:
    yield
  except kind as error:
    if not str(error).strip() or about not in str(error):
      pytest.fail(f"A message that helps nobody: {error!r}")


# Names as nobody should choose them: quotes, newlines, separators, other alphabets, markup.
NASTY = st.sampled_from(
  ["", ".", "..", "../x", "a/b", "a\\b", "a\nb", 'a"b', "a'b", "<script>x</script>", "a&b", "名前",
   "naïve", "\0", "--x", "a=b", "%s", "{0}", "x" * 300, "CON", " ", "\u202e", "]]>", "$(true)"]
)  # fmt: skip
TEXT = st.one_of(NASTY, st.text(max_size=40))
NUMBER = st.one_of(
  st.integers().map(str), st.floats().map(str), st.sampled_from(["1e999", "0x10", "١"])
)
CALL = st.builds(
  lambda name, arguments: f"{name}({', '.join(arguments)})",
  st.one_of(
    st.sampled_from([*schedules.SCHEDULES, "uniform", "lognormal", "sgdm", "adam", "qsgd"]), TEXT
  ),
  st.lists(
    st.one_of(NUMBER, TEXT, st.builds("{}={}".format, st.sampled_from(["every", "decay"]), NUMBER)),
    max_size=4,
  ),
)
VALUE = st.one_of(NUMBER, CALL, TEXT)


# What is typed.


@pytest.fixture(scope="module", autouse=True)
def defined_flags():
  if "task" not in flags.FLAGS:
    cli_flags.define_flags()


FLAG_NAMES = [
  *cli_flags.TASK_FLAGS,
  *cli_flags.ALGORITHM_FLAGS,
  *(
    "task",
    "algo",
    "set",
    "task_set",
    "preset",
    "scale",
    "seed",
    "total_rounds",
    "compression",
    "transform",
  ),
  *("experiment_name", "root_output_dir", "devices", "restart", "client_steps_per_round"),
]
ARGUMENT = st.one_of(
  st.builds("--{}={}".format, st.sampled_from(FLAG_NAMES), VALUE),
  st.builds("--task={}".format, st.sampled_from(list(tasks.TASKS))),
  st.builds("--algo={}".format, st.sampled_from(list(ALGORITHMS))),
  st.builds("--set={}={}".format, st.sampled_from(["beta", "tau", "a b"]), VALUE),
  st.builds("--{}".format, TEXT),
  TEXT,
)


@examples(0.313)
@example(["--preset="])
@example(["--flagfile=/nowhere"])
@example(["--scale=nan", "--preset=ghbm"])
@given(st.lists(ARGUMENT, max_size=6))
def test_command_lines(arguments):
  with contextlib.redirect_stderr(io.StringIO()):
    try:
      with only(errors.UserError):
        cli_flags.parse(presets.expand(["run.py", *arguments]))
        run_request.from_flags(flags.FLAGS)
    finally:
      flags.FLAGS.unparse_flags()
      for name in flags.FLAGS:
        flags.FLAGS[name].unparse()


@examples(0.2)
@given(VALUE)
def test_schedules_optimizers_and_quantisers(text):
  for read in (
    lambda: schedules.schedule("client_learning_rate", text, above=0),
    lambda: optimizers.optimizer(text),
    lambda: compression.quantiser(text),
    lambda: by_name.parse(text),
  ):
    with only(ValueError):
      read()


@examples(0.15)
@given(VALUE, st.binary(max_size=60), st.booleans())
def test_laws_and_traces(text, content, from_file):
  with tempfile.TemporaryDirectory() as folder:
    trace = pathlib.Path(folder, "trace.csv")
    trace.write_bytes(content)
    said = f"trace:{trace}" if from_file else text
    for read in (distributions.parse, distributions.parse_integers):
      with only(ValueError):
        law = read("client_speed", said)
        assert len(law.draw(np.random.default_rng(0), np.arange(3), 1)) == 3


# Where things are written.


@examples(0.1)
@given(TEXT, st.booleans())
def test_a_run_folder_is_inside_the_root_or_refused(name, restart):
  with tempfile.TemporaryDirectory() as folder:
    root = pathlib.Path(folder, "root")
    before = set(pathlib.Path(folder).rglob("*"))
    with only(ValueError):
      made = output.RunFolder.open(str(root), {"experiment_name": name}, restart=restart)
      made.close()
      assert made.path.resolve().parent == root.resolve()
    outside = set(pathlib.Path(folder).rglob("*")) - before
    assert all(path == root or root in path.parents for path in outside)


# What is read back.


@pytest.fixture(scope="module")
def database(tmp_path_factory):
  path = tmp_path_factory.mktemp("cache") / "data.sqlite"
  with contextlib.closing(sqlite3.connect(path)) as connection, connection:
    connection.execute(
      "CREATE TABLE examples (split_name TEXT, client_id TEXT, serialized_example_proto BLOB)"
    )
    connection.execute(
      "CREATE TABLE client_metadata (client_id TEXT, split_name TEXT, num_examples INTEGER)"
    )
    for client in ("a", "b\n", "ü"):
      connection.execute("INSERT INTO client_metadata VALUES (?, 'train', 2)", (client,))
      connection.executemany(
        "INSERT INTO examples VALUES ('train', ?, ?)", [(client, b"1"), (client, b"2")]
      )
  return path.read_bytes()


@pytest.mark.parametrize("damage", [[(3993, 128)], [(92, 1)]], ids=["no text", "no name"])
def test_damage_that_was_found_before(database, damage, tmp_path):
  content = bytearray(database)
  for place, value in damage:
    content[place] = value
  path = tmp_path / "data.sqlite"
  for length in (len(content), 8197):
    path.write_bytes(content[:length])
    with only(DataError, about=str(path)):
      sqlite.index(path, "train")


@examples(0.15)
@given(st.data())
def test_damaged_sqlite_files(database, data):
  content = bytearray(database)
  for place, value in data.draw(
    st.lists(st.tuples(st.integers(0, len(content) - 1), st.integers(0, 255)), max_size=8)
  ):
    content[place] = value
  content = (
    content[: data.draw(st.integers(0, len(content)))] if data.draw(st.booleans()) else content
  )
  with tempfile.TemporaryDirectory() as folder:
    path = pathlib.Path(folder, "data.sqlite")
    path.write_bytes(content)
    for read in (lambda: sqlite.index(path, "train"), lambda: sqlite.verify(path, ["train"])):
      with only(DataError, about=str(path)):
        read()
    assert path.read_bytes() == content  # nothing of the user's is touched


JSON = st.recursive(
  st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), TEXT),
  lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXT, inner, max_size=3)),
  max_leaves=6,
)


@examples(0.07)
@given(
  st.dictionaries(
    st.sampled_from(["task", "algo", "seed", "hyperparameters", "task_details", "data"]), JSON
  ),
  st.one_of(st.none(), st.text(max_size=60)),
)
def test_run_folders_of_others_are_read_or_left_out(config, metrics):
  with tempfile.TemporaryDirectory() as folder:
    path = pathlib.Path(folder, "run")
    report_runs.write_run(folder, "fedavg", [0.5, 0.6], name="run")
    known = json.loads((path / "config.json").read_text())
    (path / "config.json").write_text(json.dumps({**known, **config}))
    if metrics is not None:
      (path / "metrics.csv").write_text(metrics, errors="surrogatepass")
    found, left_out = reader.read_all([folder])
    compared, more = comparison.compare(found)
    assert len(compared) + len(left_out) + len(more) == 1


class Tags(html.parser.HTMLParser):
  """The names of all elements of a page."""

  def __init__(self, page: str):
    super().__init__()
    self.found: set[str] = set()
    self.scripts = 0
    self.feed(page)

  def handle_starttag(self, tag, attrs):
    """Notes an element, and its attributes as far as they could run a script."""
    if tag != "script" or dict(attrs) not in ({}, {"type": "application/json", "id": "data"}):
      self.found.add(tag)  # the page's own two are checked below
    else:
      self.scripts += 1
    self.found.update(name for name, _ in attrs if name.startswith("on"))


@pytest.mark.filterwarnings("ignore:Glyph .* missing from font")  # names in any script are drawn
@examples(0.002)
@given(TEXT, TEXT, TEXT, TEXT)
def test_reports_escape_all_names_and_stay_in_their_folder(algo, task, name, value):
  with tempfile.TemporaryDirectory() as folder:
    report_runs.write_run(
      f"{folder}/runs", algo, [0.5, 0.6], name="one", task=task, hyperparameters={name: value}
    )
    report_runs.write_run(
      f"{folder}/runs", algo, [0.5, 0.7], name="two", task=task, details={name: value}
    )
    before = set(pathlib.Path(folder).rglob("*"))
    settings_found, left_out = report_runs.compared(f"{folder}/runs")
    if not settings_found:
      assert left_out
      return
    writer.write(f"{folder}/report", settings_found, left_out)
    page = pathlib.Path(folder, "report", "index.html").read_text(encoding="utf-8")
    tags = Tags(page)
    assert not tags.found & {"script", "iframe", "object", "onerror", "onload"}
    assert (
      tags.scripts == 2
    )  # the charts' data and their code; its hash is the only one that may run
    made = set(pathlib.Path(folder).rglob("*")) - before
    inside = pathlib.Path(folder, "report")
    assert all(path == inside or inside in path.parents for path in made)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
  """A folder with two checkpoints, and what reads them."""
  process = shared_runs.process("scaffold", client_learning_rate=0.1, num_clients=6)
  folder = tmp_path_factory.mktemp("checkpoints")
  store = client_store.MemoryStore(lambda client: process.initial_client_state([0, 0]))
  kept = checkpoints.Checkpoints(folder, process, store)
  start = process.initialize()
  for number in (5, 10):
    kept.save(start._replace(round=np.int32(number)))
  return folder, process, store


@examples(0.015)
@given(st.data())
def test_damaged_checkpoints_are_passed_over(saved, data):
  folder, process, store = saved
  with tempfile.TemporaryDirectory() as copies:
    copy = pathlib.Path(copies, "checkpoints")
    shutil.copytree(folder, copy)
    file = copy / "00000010" / data.draw(st.sampled_from(["manifest.json", "server", "clients"]))
    content = bytearray(file.read_bytes())
    place = data.draw(st.integers(0, len(content) - 1))
    cut = data.draw(st.booleans())
    if cut:
      content = content[:place]
    else:
      content[place] ^= data.draw(st.integers(1, 255))
    file.write_bytes(content)
    with warnings.catch_warnings(record=True) as said:
      warnings.simplefilter("always")
      state = checkpoints.Checkpoints(copy, process, store).resume()
    assert int(state.round) in (5, 10)
    if int(state.round) == 5:
      assert any("00000010 cannot be used" in str(warning.message) for warning in said)
    else:  # only a manifest's spaces may change unseen
      assert file.name == "manifest.json"
