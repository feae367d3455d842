"""The audit of what a GPU would run finds operations without a kernel; clients' functions have none."""

import json
import os
import subprocess
import sys

import pytest
import tensorflow as tf

from experiments.checks import gpu_subjects
from tests import ROOT
from tff_momentum.runtime import gpu_audit, gpu_kernels


def node(op, **types):
  made = tf.compat.v1.NodeDef(op=op, name="it")
  for name, dtype in types.items():
    made.attr[name].type = dtype.as_datatype_enum
  return made


@pytest.mark.parametrize(
  ("op", "types", "expected"),
  [
    ("MatMul", {"T": tf.float32}, True),
    ("_MklMatMul", {"T": tf.float32}, True),
    ("MatMul", {"T": tf.int32}, False),
    ("StatelessShuffle", {"T": tf.float32}, False),
    ("ReduceDataset", {}, False),
    ("TensorListGetItem", {"element_dtype": tf.float32}, True),
    ("StatelessRandomUniformV2", {"dtype": tf.float32}, True),
    ("CudnnRNNV3", {"T": tf.float32}, True),
    ("AddV2", {"T": tf.int32}, True),
    ("Const", {"dtype": tf.string}, False),
  ],
)
def test_the_wheel_knows_its_gpu_kernels(op, types, expected):
  assert gpu_kernels.has_gpu_kernel(node(op, **types)) == expected


def test_small_integers_stay_on_the_host():
  assert gpu_kernels.host_inputs(node("AddV2", T=tf.int32)) == [True, True]
  assert gpu_kernels.host_inputs(node("AddV2", T=tf.float32)) == [False, False]
  assert gpu_kernels.host_outputs(node("Shape", T=tf.float32, out_type=tf.int32)) == [True]


def graph_of(function, *specs):
  return tf.function(function).get_concrete_function(*specs).graph.as_graph_def()


def test_an_operation_is_found_inside_a_loop_and_a_called_function():
  @tf.function
  def shuffled(x):
    return tf.random.experimental.stateless_shuffle(x, [1, 2])

  def loop(x):
    return tf.while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, shuffled(x)), (0, x))

  found = gpu_audit.ops_without_kernel(graph_of(loop, tf.TensorSpec([4])))
  assert [finding.op for finding in found] == ["StatelessShuffle"]
  assert "float32" in found[0].dtypes
  plain = graph_of(lambda x: x + 1.0, tf.TensorSpec([4]))
  assert gpu_audit.ops_without_kernel(plain) == []


def audits(*names, code="", flags=()):
  """Audits subjects in a process of their own, which `code` may change first."""
  script = f"import sys; {code}\nfrom experiments.checks import gpu_subjects\ngpu_subjects.main(sys.argv[1:])"
  result = subprocess.run(
    [sys.executable, "-c", script, *names, *flags],
    cwd=ROOT, capture_output=True, text=True, timeout=1500, env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
  )  # fmt: skip
  assert result.returncode == 0, result.stderr
  found = [json.loads(line) for line in result.stdout.splitlines() if line.startswith("{")]
  assert [each["name"] for each in found] == list(names), result.stderr
  return found


def problems(found):
  """Returns the audits that found something, by the subject's name."""
  keys = ("failed", "without_kernel", "crossings")
  wrong = {each["name"]: {key: each[key] for key in keys if each.get(key)} for each in found}
  return {name: what for name, what in wrong.items() if what}


def test_every_algorithm_on_a_small_model_and_fedavg_on_the_quick_models():
  found = audits(*gpu_subjects.names())
  assert problems(found) == {}
  assert all(each["functions"] > 0 for each in found)
  assert all(each["launches"] + each["compiled"] > 0 for each in found)


def test_the_graphs_of_a_client_do_not_depend_on_its_examples():
  names = ("scaffold", "fedavg@quadratic")
  for empty, full in zip(audits(*names), audits(*names, flags=["--with_examples"]), strict=True):
    assert empty == full


@pytest.mark.slow
def test_every_algorithm_on_every_model(tmp_path):
  """All algorithms on all models, deep ones in short forms; takes about an hour of one core."""
  gpu_subjects.audit_everything(tmp_path / "audit.jsonl")
  found = [json.loads(line) for line in (tmp_path / "audit.jsonl").read_text().splitlines()]
  assert [each["name"] for each in found] == gpu_subjects.names(slow=True)
  assert problems(found) == {}
  assert all(each["functions"] > 0 for each in found)
  # The short forms have the same kinds of operations as the whole models.
  # Those that TensorFlow adds for a function's arguments and results do not count.
  kinds = {
    each["name"]: [kind for kind in each["kinds"] if not kind.startswith("_Device")]
    for each in found
  }
  for task, model in gpu_subjects.SHORT:
    assert kinds[f"fedavg@{task}/{model}/short"] == kinds[f"fedavg@{task}/{model}"]


@pytest.mark.slow
def test_operations_are_those_of_the_algorithm_on_a_small_model_and_of_the_model():
  """Why all algorithms on one model and one algorithm on all models say enough in the usual tests."""
  algorithms, places = ("mime", "fedmuon", "fedglomo"), ("emnist/cnn_dropout", "shakespeare/gru")
  pairs = [f"{algorithm}@{place}" for algorithm in algorithms for place in places]
  found = audits(*algorithms, *(f"fedavg@{place}" for place in places), *pairs)
  kinds = {each["name"]: set(each["kinds"]) for each in found}
  for pair in pairs:
    algorithm, _, place = pair.partition("@")
    assert kinds[pair] <= kinds[algorithm] | kinds[f"fedavg@{place}"]


def test_the_exceptions_are_few():
  assert len(gpu_audit.EXCEPTIONS) <= 5


SHUFFLE = """
import tensorflow as tf
from tff_momentum import client
old = client.Client._with_weight_decay
def shuffled(self, g, y):
  first, *rest = old(self, g, y)
  return (tf.random.experimental.stateless_shuffle(first, [1, 2]), *rest)
client.Client._with_weight_decay = shuffled
"""


def test_a_shuffle_in_a_client_step_is_found():
  (found,) = audits("fedavg@diabetes", code=SHUFFLE)
  assert any(text.startswith("StatelessShuffle") for text in found["without_kernel"])
