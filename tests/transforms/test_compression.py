"""QSGD: the oracle, Assumption 3 of FedGLOMO, the packed size, and the `tff.aggregators` factory."""

import collections

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tests.helpers import harness
from tests.oracle import qsgd as oracle_qsgd
from tff_momentum import algorithms, wire_bytes
from tff_momentum.processes import aggregators
from tff_momentum.transforms import compression
from tff_momentum.transforms.compression import qsgd

SHAPES = ((3, 4), (4,), (), (0, 2), (5, 1, 2))


def example(seed=0, shapes=SHAPES):
  random = np.random.default_rng(seed)
  return tuple(tf.constant(random.normal(size=shape), tf.float32) for shape in shapes)


@pytest.mark.parametrize("bits", [2, 4, 8])
def test_agrees_with_the_oracle_given_the_same_uniforms(bits):
  v, seed = example(), tf.constant([3, 4])
  u = [compression.uniforms(part, seed, number) for number, part in enumerate(v)]
  splits = [int(np.prod(shape)) for shape in SHAPES]
  expected = oracle_qsgd(harness.flatten(v), bits, harness.flatten(u), splits)
  actual = qsgd(bits).quantise(v, seed)
  assert [part.shape for part in actual] == [part.shape for part in v]
  np.testing.assert_allclose(harness.flatten(actual), expected, rtol=1e-6)
  assert np.abs(harness.flatten(actual) - harness.flatten(v)).max() > 1e-4


@pytest.mark.parametrize("bucket", [None, 1, 3, 64])
@pytest.mark.parametrize("norm", ["l2", "max"])
def test_buckets_and_the_largest_entry_agree_with_the_oracle(norm, bucket):
  v, seed = example(2), tf.constant([3, 4])
  u = [compression.uniforms(part, seed, number) for number, part in enumerate(v)]
  splits = [int(np.prod(shape)) for shape in SHAPES]
  norm_of = {"l2": np.linalg.norm, "max": lambda part: np.abs(part).max()}[norm]
  expected = oracle_qsgd(harness.flatten(v), 3, harness.flatten(u), splits, norm_of, bucket)
  actual = qsgd(3, norm, bucket).quantise(v, seed)
  assert [part.shape for part in actual] == [part.shape for part in v]
  np.testing.assert_allclose(harness.flatten(actual), expected, rtol=1e-6)


@pytest.mark.parametrize(("norm", "bucket"), [("max", None), ("max", 8), ("l2", 8)])
def test_buckets_and_the_largest_entry_are_unbiased_with_a_smaller_variance(norm, bucket):
  """An entry's error is at most the norm of its bucket / s, and its variance a quarter of the square."""
  v, draws, s = example(1, ((4, 5),)), 20_000, 3
  q = qsgd(3, norm, bucket)
  draw = tf.function(lambda k: q.quantise(v, tf.stack([k, 7]))[0])
  drawn = tf.function(lambda: tf.map_fn(draw, tf.range(draws), fn_output_signature=tf.float32))()
  error = np.reshape(drawn, [draws, 20]) - harness.flatten(v)
  deviation = error.std(axis=0) / np.sqrt(draws)
  assert np.abs(error.mean(axis=0)[deviation > 0] / deviation[deviation > 0]).max() < 4.5
  parts = np.split(harness.flatten(v), [8, 16] if bucket else [])
  norms = [np.abs(part).max() if norm == "max" else np.linalg.norm(part) for part in parts]
  step = np.concatenate([np.full(len(p), n / s) for p, n in zip(parts, norms, strict=True)])
  assert (np.abs(error).max(axis=0) <= step * (1 + 1e-5)).all()
  assert (error.var(axis=0) <= 1.05 * step**2 / 4).all()


def test_two_bits_of_a_large_layer_need_the_largest_entry():
  """With the 2-norm of 90,000 weights the error is many times the update, with buckets it is not."""
  v = (tf.constant(np.random.default_rng(0).normal(size=(300, 300)), tf.float32),)
  size = np.linalg.norm(v[0])
  l2, bucketed = (
    np.linalg.norm(q.quantise(v, [1, 2])[0] - v[0]) for q in (qsgd(2), qsgd(2, "max", 512))
  )
  assert l2 > 10 * size
  assert bucketed < 2 * size


@pytest.mark.parametrize("bits", [2, 3, 4])
def test_it_is_unbiased_within_the_variance_bound_of_assumption_3(bits):
  """E‖Q(v) − v‖² ≤ min(d/s², √d/s)‖v‖²; the mean of n draws is as close as its variance says."""
  v, draws, s, d = example(1, ((4, 5),)), 20_000, 2 ** (bits - 1) - 1, 20
  q = qsgd(bits)
  draw = tf.function(lambda k: q.quantise(v, tf.stack([k, 7]))[0])
  drawn = tf.function(lambda: tf.map_fn(draw, tf.range(draws), fn_output_signature=tf.float32))()
  error = np.reshape(drawn, [draws, d]) - harness.flatten(v)
  deviation = error.std(axis=0) / np.sqrt(draws)
  assert np.abs(error.mean(axis=0) / deviation).max() < 4.5
  bound = min(d / s**2, np.sqrt(d) / s) * (harness.flatten(v) ** 2).sum()
  assert 0 < (error**2).sum(axis=1).mean() < bound


def test_zero_and_single_coordinates_are_exact_and_levels_are_clamped():
  for bits in (2, 8):
    for value in (np.zeros(5), [0.7], [-1e-30], [3e38]):
      v = (tf.constant(value, tf.float32),)
      np.testing.assert_array_equal(qsgd(bits).quantise(v, [1, 2])[0], v[0])
  # In float64 the norm travels as float32(0.7) < 0.7, and the level would be 2 of 1.
  assert qsgd(2).quantise(tf.constant([0.7], tf.float64), [1, 2]) == np.float64(np.float32(0.7))


def test_values_too_small_or_large_to_be_squared_are_still_unbiased():
  for scale in (1e-30, 1e30):
    v = tf.constant(np.random.default_rng(0).normal(size=1000) * scale, tf.float32)
    q = qsgd(8).quantise(v, [1, 2])
    assert np.linalg.norm(q / scale - v / scale) < 0.3 * np.linalg.norm(v / scale)


def test_the_seed_decides():
  v, q = example(), qsgd(4)
  one, again, other = (harness.flatten(q.quantise(v, seed)) for seed in ([1, 2], [1, 2], [1, 3]))
  np.testing.assert_array_equal(one, again)
  assert (one != other).any()
  twin = q.quantise((v[0], v[0]), [1, 2])
  assert (twin[0].numpy() != twin[1].numpy()).any()  # no two tensors share their random numbers


def test_packed_size():
  specs = tuple(tf.TensorSpec(shape, tf.float32) for shape in ((3, 4), (5,)))
  assert qsgd(3).packed_bytes(specs) == 2 * 4 + 7  # 17 coordinates of 3 bits are 51 bits
  assert qsgd(8).packed_bytes(specs) == 2 * 4 + 17
  assert (
    qsgd(8, "max", 5).packed_bytes(specs) == (3 + 1) * 4 + 17
  )  # 12 coordinates fill three buckets
  assert (
    qsgd(32).packed_bytes(specs) == qsgd(40).packed_bytes(specs) == wire_bytes.dense_bytes(specs)
  )
  assert qsgd(32).quantise(specs, [1, 2]) is specs


@pytest.mark.parametrize(
  "text", ["qsgd", "qsgd:", "qsgd:x", "qsgd:1", "qsgd:-4", "topk:4", "", "qsgd(1)"]
)
def test_a_wrong_text_is_refused(text):
  with pytest.raises(ValueError, match=r"compression must be|bits must be"):
    compression.quantiser(text)


def test_a_text_with_norm_and_bucket():
  q = compression.quantiser("qsgd(4, norm='max', bucket=512)")
  assert str(q) == "qsgd(4, norm='max', bucket=512)"
  assert str(compression.quantiser(str(q))) == str(q)
  for text, said in (("qsgd(4, norm='l1')", "norm must be"), ("qsgd(4, bucket=0)", "bucket must be"),
                     ("qsgd(4, size=2)", "wrong arguments")):  # fmt: skip
    with pytest.raises(ValueError, match=said):
      compression.quantiser(text)


def test_any_algorithm_can_be_compressed_and_its_bytes_are_counted():
  plain = algorithms.builder("mime")(client_learning_rate=0.1)
  exact, ours, again = (
    harness.run_product(algorithm)
    for algorithm in (plain, *(compression.compressed(plain, f"qsgd:{b}") for b in (12, 32)))
  )
  np.testing.assert_array_equal(again.x, exact.x)
  assert 1e-6 < np.abs(np.subtract(ours.x, exact.x)).max() < 0.05
  assert exact.process.bytes_up(0) == 2 * 16 * 4
  assert ours.process.bytes_up(0) == 2 * (16 * 12 // 8 + 2 * 4)  # two tensors, each with its norm
  assert ours.process.bytes_down(0) == exact.process.bytes_down(0)
  with pytest.raises(ValueError, match="is compressed already"):
    compression.compressed(ours.process.algorithm, "qsgd:4")
  for name, reason in (("fedpaq", "set its own `bits`"), ("fedcm", "derives part of the upload")):
    with pytest.raises(ValueError, match=reason):
      compression.compressed(algorithms.builder(name)(client_learning_rate=0.1), "qsgd:4")


def aggregate(factory, values, weights=None, rounds=1):
  value_type = tff.types.tensorflow_to_type([tf.TensorSpec(v.shape, v.dtype) for v in values[0]])
  weight_type = [] if weights is None else [tff.types.TensorType(np.float32)]
  process = factory.create(value_type, *weight_type)
  state, results = process.initialize(), []
  for _ in range(rounds):
    output = process.next(state, values, *([] if weights is None else [weights]))
    state = output.state
    results.append(harness.flatten(output.result))
  return results


def test_the_factory_quantises_at_the_clients_weighted_or_not():
  values = [list(example(i, ((3, 4), (6,)))) for i in range(3)]
  mean = np.mean([harness.flatten(v) for v in values], axis=0)
  plain = aggregators.quantised("qsgd:8", tff.aggregators.SumFactory())
  sums, again = aggregate(plain, values, rounds=2), aggregate(plain, values, rounds=1)
  np.testing.assert_array_equal(sums[0], again[0])
  assert (sums[0] != sums[1]).any()  # each round rounds anew
  np.testing.assert_allclose(sums[0], 3 * mean, atol=0.1)
  weights = [np.float32(w) for w in (1, 2, 5)]
  weighted = aggregate(aggregators.quantised("qsgd:8"), values, weights, rounds=1)
  exact = np.average([harness.flatten(v) for v in values], axis=0, weights=weights)
  np.testing.assert_allclose(weighted[0], exact, atol=0.05)
  assert np.abs(weighted[0] - exact).max() > 1e-5


def test_the_factory_is_unbiased_over_the_rounds():
  values = [list(example(5, ((6,),)))]
  drawn = aggregate(
    aggregators.quantised("qsgd:2", tff.aggregators.SumFactory()), values, rounds=400
  )
  error = np.array(drawn) - harness.flatten(values[0])
  assert np.abs(error.mean(axis=0) / (error.std(axis=0) / 20)).max() < 4.5


def test_the_factory_works_in_a_stock_learning_process():
  spec = collections.OrderedDict(
    x=tf.TensorSpec([None, harness.FEATURES], tf.float32), y=tf.TensorSpec([None], tf.int32)
  )

  def model_fn():
    model = tf.keras.Sequential(
      [tf.keras.layers.Dense(harness.CLASSES, input_shape=[harness.FEATURES])]
    )
    loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    return tff.learning.models.from_keras_model(model, loss, input_spec=spec)

  process = tff.learning.algorithms.build_weighted_fed_avg(
    model_fn,
    tff.learning.optimizers.build_sgdm(0.1),
    model_aggregator=aggregators.quantised("qsgd:6"),
  )
  data = [
    harness.client_dataset(i).map(lambda x, y: collections.OrderedDict(x=x, y=y)) for i in (0, 1, 3)
  ]
  state, losses = process.initialize(), []
  for _ in range(4):
    output = process.next(state, data)
    state = output.state
    losses.append(float(output.metrics["client_work"]["train"]["loss"]))
  assert losses[-1] < losses[0]


def test_the_factory_refuses_what_it_cannot_quantise():
  with pytest.raises(ValueError, match="floating-point"):
    aggregators.quantised("qsgd:4").create(
      tff.types.TensorType(np.int32), tff.types.TensorType(np.float32)
    )
  with pytest.raises(ValueError, match="inner must be"):
    aggregators.quantised("qsgd:4", "mean")
