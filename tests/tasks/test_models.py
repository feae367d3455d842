"""Parameter counts: each model is as large as the papers', TFF's or Keras's own."""

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tasks.models import deep, images, text
from tasks.models.classification import classifier

GREY, CIFAR = (28, 28, 1), (32, 32, 3)


def count(model):
  return sum(int(tf.size(w)) for w in model.trainable_variables)


@pytest.mark.parametrize(
  ("build", "arguments", "expected"),
  [
    # TFF's docstrings (Reddi et al. 2021; McMahan et al. 2017).
    (images.cnn_dropout, (GREY, 10), 1_199_882),
    (images.cnn_dropout, (GREY, 62), 1_206_590),
    (images.cnn, (GREY, 10), 1_663_370),
    (images.cnn, (GREY, 62), 1_690_046),
    (images.dense(200), (GREY, 10), 199_210),
    (images.autoencoder, (GREY,), 2_837_314),
    (images.logistic, (GREY, 10), 7_850),
    # FedGBO: by its architecture, and by the FLOPs of its tables 7 and 8 (32×32 for CIFAR-100).
    (images.cnn_fedgbo, (GREY, 62), 870_334),
    (images.cnn_fedgbo, ((28, 28, 3), 100), 890_404),
    (images.cnn_fedgbo, (CIFAR, 100), 1_250_852),
    # GHBM: Hsu et al.'s LeNet, and He et al.'s ResNet-20 (0.27 million).
    (images.lenet, (CIFAR, 10), 797_962),
    (images.lenet, (CIFAR, 100), 815_332),
    (images.lenet5, (CIFAR, 10), 62_006),  # LeCun et al.'s layers on 32×32×3
    (deep.resnet20, (CIFAR, 10), 269_722),
    (deep.resnet20, (CIFAR, 100), 275_572),
    # FedGLOMO: 300 and 600 hidden units; FedGM: VGG-11; SCAFFOLD: logistic regression of 47 classes.
    (images.dense(300), (GREY, 10), 328_810),
    (images.dense(600), (CIFAR, 10), 2_210_410),
    (deep.vgg11, (CIFAR, 10), 9_231_114),
    (images.logistic, (GREY, 47), 36_895),
    # Text: Reddi et al. 2021, McMahan et al. 2017, GHBM, FedGBO.
    (text.next_word, (10_004,), 4_050_748),
    (text.next_characters, (90,), 820_522),
    (text.one_character_lstm, (80,), 132_720),
    (text.one_character_gru, (79,), 162_887),
  ],
)
def test_parameters(build, arguments, expected):
  with tf.Graph().as_default():
    assert count_in_graph(build(*arguments)) == expected


def count_in_graph(model):
  return sum(w.shape.num_elements() for w in model.trainable_weights)


def test_resnet18_is_of_the_size_of_tffs():
  with tf.Graph().as_default():
    ours = count_in_graph(deep.resnet18((24, 24, 3), 100))
  task = tff.simulation.baselines.cifar100.create_image_classification_task(
    tff.simulation.baselines.ClientSpec(num_epochs=1, batch_size=2),
    model_id="resnet18",
    use_synthetic_data=True,
  )
  assert ours == count(task.model_fn())


def test_mobilenet_is_of_the_size_and_order_of_keras_own():
  with tf.Graph().as_default():
    ours = [tuple(w.shape) for w in deep.mobilenet_v2((224, 224, 3), 2028).trainable_weights]
    keras = tf.keras.applications.MobileNetV2((224, 224, 3), include_top=False, weights=None)
    theirs = [tuple(w.shape) for w in keras.trainable_weights]
    assert count_in_graph(keras) == 2_223_872
  assert ours[: len(theirs)] == theirs  # so that its ImageNet weights can be taken over
  assert ours[len(theirs) :] == [(1280, 2028), (2028,)]


@pytest.mark.parametrize("build", [deep.resnet20, deep.resnet18, deep.vgg11, deep.mobilenet_v2])
def test_deep_models_become_pure_models(build):
  """One gradient step on a fixed batch lowers the loss."""
  model = classifier(lambda: build(CIFAR, 10), tf.TensorSpec([None, *CIFAR], tf.float32), seed=0)
  rng = np.random.default_rng(0)
  batch = (rng.normal(size=(4, *CIFAR)).astype(np.float32), np.arange(4, dtype=np.int32))
  weights = tuple(tf.constant(w) for w in model.initial_weights)
  step = tf.function(model.value_and_grad)
  before, gradient = step(weights, batch, tf.zeros([2], tf.int32))
  size = 1e-2 / tf.linalg.global_norm(gradient)
  after, _ = step(
    tuple(w - size * g for w, g in zip(weights, gradient, strict=True)),
    batch,
    tf.zeros([2], tf.int32),
  )
  assert after.loss < before.loss


def test_vit_is_of_the_published_size():
  with tf.Graph().as_default():
    model = deep.vit_b16((224, 224, 3), 1000)
    assert count_in_graph(model) == 86_567_656  # as published for 1,000 classes


@pytest.mark.parametrize("build", [images.cnn, images.lenet, images.cnn_dropout, deep.resnet20])
def test_fedmax_finds_the_penultimate_layer(build):
  with tf.Graph().as_default():
    assert build(CIFAR, 10).get_layer(images.PENULTIMATE).output.shape.rank == 2
