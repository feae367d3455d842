"""FedExP and FedInit as transforms of other algorithms: values, bytes, refusals, compression, asynchrony."""

import warnings

import numpy as np
import pytest
import tensorflow as tf

from tests.helpers import direct_runs, harness, shared_runs
from tests.oracle.newer import extrapolation
from tests.oracle.problem import batches, g
from tff_momentum import algorithms
from tff_momentum.client import LocalWork
from tff_momentum.processes.process import build_process
from tff_momentum.registry import ALGORITHMS
from tff_momentum.transforms import by_name
from tff_momentum.transforms.asynchronous import asynchronous
from tff_momentum.transforms.compression import compressed
from tff_momentum.transforms.extrapolation import extrapolated
from tff_momentum.transforms.relaxed_start import relaxed

LR = {"client_learning_rate": 0.1}
FACTS = {**LR, "num_clients": len(harness.SIZES), "max_staleness": 2}
WORK = dict(shared_runs.WORK)
FITS = {"fedavg", "fedprox", "fedmax", "fedavg_lm", "fedsam", "mofedsam", "fedcm", "scaffold",
        "scaffold_m", "fedinit"}  # fmt: skip
COMPRESSED = {"fedpaq", "fedpaq_lm"}  # fedexp measures what they send


def build(name, **given):
  known = ALGORITHMS[name].hyperparameters
  facts = {key: value for key, value in FACTS.items() if key in known}
  return algorithms.builder(name)(**facts, **given)


def scaffold_by_hand(*, beta=0.0, epsilon=None):
  """SCAFFOLD with both transforms, in float64."""
  problem, N = harness.oracle_problem(**WORK), len(harness.SIZES)
  x, c, c_i, last, models = problem.x0, 0 * problem.x0, {}, {}, []
  for cohort in harness.COHORTS:
    deltas, changes = [], []
    for i in [i for i in cohort if harness.SIZES[i]]:
      start = x + beta * (x - last.get(i, problem.x0))
      y, own = start, c_i.get(i, 0 * x)
      for b in batches(problem, i):
        y = y - 0.1 * (g(problem, y, b) - own + c)
      K = len(batches(problem, i))
      c_i[i] = own - c + (start - y) / (0.1 * K)
      deltas.append(start - y)
      changes.append(c_i[i] - own)
      last[i] = y
    eta = 1.0
    if epsilon is not None:
      eta = extrapolation(np.mean([d @ d for d in deltas]), np.mean(deltas, axis=0), epsilon)
    x = x - eta * np.mean(deltas, axis=0)
    c = c + sum(changes) / N
    models.append(x)
  return models


@pytest.mark.parametrize("transforms", ["fedexp(epsilon=0.001)", "fedinit(beta=0.3)", "both"])
def test_scaffold_with_transforms_agrees_with_numpy(transforms):
  both = "fedexp(epsilon=0.001)+fedinit(beta=0.3)"
  text = both if transforms == "both" else transforms
  ours = direct_runs.run_algorithm(by_name.apply(build("scaffold"), text))
  hand = {"fedexp": {"epsilon": 0.001}, "fedinit": {"beta": 0.3}}
  given = [value for name, value in hand.items() if name in text]
  theirs = scaffold_by_hand(**{key: v for each in given for key, v in each.items()})
  harness.assert_same_models(ours.x, theirs)


def test_a_transformed_algorithm_is_the_algorithm_of_this_name():
  ours = direct_runs.run_algorithm(relaxed(build("fedavg"), beta=0.3))
  harness.assert_same_models(ours.x, direct_runs.run("fedinit", beta=0.3, **LR).x, 1e-7)
  ours = direct_runs.run_algorithm(extrapolated(build("fedavg"), epsilon=1e-3))
  harness.assert_same_models(ours.x, direct_runs.run("fedexp", epsilon=1e-3, **LR).x, 1e-7)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_they_fit_servers_that_average_and_refuse_others_with_the_reason(name):
  for transform, fits in ((extrapolated, FITS | COMPRESSED), (relaxed, FITS)):
    if name in fits:
      assert transform(build(name)).name == name
    else:
      with pytest.raises(ValueError, match=r"steps in another way|asynchronous|compressed uploads"):
        transform(build(name))


def test_bytes_and_types_with_compression_and_asynchronous_clients():
  """‖Δ‖² travels as one number beside the packed upload."""
  packed = compressed(build("fedavg"), "qsgd:8")
  model = harness.softmax_model()
  plain = build_process(packed, model, work=LocalWork(**WORK))
  late = asynchronous(
    by_name.apply(build("fedavg"), "fedexp", lambda a: compressed(a, "qsgd:8")), max_staleness=2
  )
  ours = build_process(late, model, work=LocalWork(**WORK))
  assert ours.bytes_up(1) == plain.bytes_up(1) + 4
  assert ours.bytes_down(1) == plain.bytes_down(1)
  run = harness.run_process(ours)
  assert np.isfinite(run.x).all()
  first = direct_runs.run_algorithm(extrapolated(packed), cohorts=harness.COHORTS[:1])
  harness.assert_same_models(run.x[:1], first.x)


def test_relaxed_starts_come_before_compression_and_warn_where_models_diverge():
  both = by_name.apply(build("scaffold"), "fedexp+fedinit", lambda a: compressed(a, "qsgd:8"))
  state = both.init_client((tf.zeros([2]),), tf.zeros([2], tf.int32))
  assert len(tf.nest.flatten(state)) == 2  # c_i and ŷ_i
  with pytest.warns(UserWarning, match="likely to diverge"):
    relaxed(build("fedavg"), beta=0.3, aggregate="models", participation=0.1)
  with warnings.catch_warnings():
    warnings.simplefilter("error")
    relaxed(build("fedavg"), beta=0.3, participation=0.1)


@pytest.mark.parametrize(
  ("text", "reason"),
  [
    ("fedexp+fedexp", "each transform once"),
    ("fedex", "Did you mean fedexp"),
    ("fedexp(0.1, 2, 3)", "wrong arguments"),
    ("fedinit(beta=2)", "beta must be"),
    ("fedexp(epsilon=-1)", "epsilon must be"),
    ("fedexp(evaluate='first')", "evaluate must be"),
    ("3", "transform must be"),
    ("", "transform must be"),
  ],
)
def test_a_bad_text_is_refused(text, reason):
  with pytest.raises(ValueError, match=reason):
    by_name.apply(build("fedavg"), text)


def test_fedexp_chooses_the_servers_rate_itself():
  with pytest.raises(ValueError, match="server_learning_rate must be 1 with fedexp"):
    extrapolated(build("fedavg", server_learning_rate=0.5))
