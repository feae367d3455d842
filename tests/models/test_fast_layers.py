"""The faster formulas have the values and gradients of Keras's own layers."""

import numpy as np
import pytest
import tensorflow as tf

import tff_momentum as tfm
from tff_momentum.models import fast_layers

Layer = tf.keras.layers.GroupNormalization


def value_and_gradients(layer, x, upstream):
  with tf.GradientTape() as tape:
    tape.watch(x)
    y = layer(x)
  return [y, *tape.gradient(y, [x, *layer.trainable_variables], upstream)]


@pytest.mark.parametrize(
  ("shape", "groups", "options"),
  [
    ((3, 5, 4, 6), 2, {}),
    ((3, 5, 4, 6), 6, {"scale": False}),
    ((4, 7, 8), 1, {"center": False, "epsilon": 0.1}),
    ((4, 6), 3, {}),
  ],
)
def test_group_normalisation_equals_keras(shape, groups, options):
  draw = np.random.default_rng(1)
  x = tf.constant(draw.normal(3.0, 2.0, shape).astype(np.float32))
  upstream = tf.constant(draw.normal(size=shape).astype(np.float32))
  layer = Layer(groups, **options)
  layer.build(x.shape)
  layer.set_weights([draw.normal(size=w.shape) for w in layer.get_weights()])
  expected = value_and_gradients(layer, x, upstream)
  with fast_layers.fast_layers():
    found = value_and_gradients(layer, x, upstream)
  for a, b in zip(expected, found, strict=True):
    np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


def test_images_of_unknown_size():
  with fast_layers.fast_layers():
    function = tf.function(
      lambda x: fast_layers.group_norm(x, tf.ones([4]), tf.zeros([4]), groups=2, epsilon=1e-3),
      input_signature=[tf.TensorSpec([None, None, None, 4])],
    )
  x = tf.random.stateless_normal([2, 3, 5, 4], [0, 1])
  assert function.get_concrete_function().outputs[0].shape.as_list() == [None, None, None, 4]
  np.testing.assert_allclose(function(x), Layer(2)(x), rtol=1e-4, atol=1e-5)


def test_masks_and_subclasses_keep_their_own_formula():
  class Doubled(Layer):
    def _apply_normalization(self, **arguments):
      return 2 * super()._apply_normalization(**arguments)

  x, mask = tf.random.stateless_normal([2, 6, 4], [0, 1]), tf.constant([1.0] * 4 + [0.0] * 2)
  masked = tf.broadcast_to(mask[None, :, None], x.shape)
  expected = Layer(2)(x, mask=masked), Doubled(2)(x)
  with fast_layers.fast_layers():
    found = Layer(2)(x, mask=masked), Doubled(2)(x)
  for a, b in zip(expected, found, strict=True):
    np.testing.assert_array_equal(a, b)


def test_keras_itself_is_unchanged_afterwards():
  call = Layer.call
  with fast_layers.fast_layers():
    assert Layer.call is not call
  assert Layer.call is call


def test_a_client_trains_as_keras_does():
  def build():
    return tf.keras.Sequential(
      [
        tf.keras.layers.Conv2D(4, 3, input_shape=(6, 6, 2)),
        Layer(2),
        tf.keras.layers.ReLU(),
        tf.keras.layers.Flatten(),
        tf.keras.layers.Dense(3),
      ]
    )

  loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
  x, y = tf.random.stateless_normal([5, 6, 6, 2], [0, 1]), tf.constant([0, 1, 2, 0, 1])
  spec = (tf.TensorSpec([None, 6, 6, 2]), tf.TensorSpec([None], tf.int32))
  model = tfm.from_keras(build, loss=loss, batch_spec=spec)
  keras = build()
  keras.set_weights(model.initial_weights)
  with tf.GradientTape() as tape:
    value = loss(y, keras(x))
  expected = tape.gradient(value, keras.trainable_variables)
  tally, found = tf.function(model.value_and_grad, autograph=False)(
    model.initial_weights, (x, y), tf.zeros([2], tf.int32)
  )
  assert float(tally.loss / 5) == pytest.approx(float(value), rel=1e-5)
  for a, b in zip(expected, found, strict=True):
    np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
