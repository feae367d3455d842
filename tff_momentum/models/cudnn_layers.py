"""Keras's recurrent layers with cuDNN's kernel, in the graphs that clients run on GPUs.

Keras itself chooses the kernel only in eager mode and in a `tf.function`, and `from_keras` builds a plain
graph. There, this module calls Keras's own function for GPUs, under the conditions that Keras documents.
"""

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf
from keras.src.layers.rnn import gru as gru_lib
from keras.src.layers.rnn import gru_lstm_utils
from keras.src.layers.rnn import lstm as lstm_lib

_LAYERS = (tf.keras.layers.LSTM, tf.keras.layers.GRU)
_LSTM, _GRU = lstm_lib.lstm_with_backend_selection, gru_lib.gru_with_backend_selection
_lock = threading.RLock()  # Keras's modules belong to the whole process


def can_use_cudnn(model: "tf.keras.Model") -> bool:
  """Whether some layer of a model can use the kernel."""
  return any(_fits(layer) for layer in model._flatten_layers())


@contextlib.contextmanager
def cudnn_layers(model: "tf.keras.Model") -> Iterator[None]:
  """Uses the kernel for those layers of `model` that can, where they are called inside the `with` block."""
  for layer in model._flatten_layers():
    if _fits(layer):
      layer._could_use_gpu_kernel = True
  with _lock:
    lstm_lib.lstm_with_backend_selection, gru_lib.gru_with_backend_selection = _lstm, _gru
    try:
      yield
    finally:
      lstm_lib.lstm_with_backend_selection, gru_lib.gru_with_backend_selection = _LSTM, _GRU


def _fits(layer: Any) -> bool:
  """Whether a layer is of a kind that cuDNN computes: Keras's own conditions."""
  return (
    type(layer) in _LAYERS
    and layer.activation is tf.keras.activations.tanh
    and layer.recurrent_activation is tf.keras.activations.sigmoid
    and not layer.recurrent_dropout
    and not layer.unroll
    and layer.use_bias
    and getattr(layer, "reset_after", True)  # of GRU
    and not layer.stateful
  )


def _lstm(**arguments: Any) -> Any:
  return _cudnn_or_standard(lstm_lib.gpu_lstm, lstm_lib.standard_lstm, arguments)


def _gru(**arguments: Any) -> Any:
  return _cudnn_or_standard(gru_lib.gpu_gru, gru_lib.standard_gru, arguments)


def _cudnn_or_standard(
  gpu: Callable[..., Any], standard: Callable[..., Any], arguments: dict[str, Any]
) -> Any:
  """Calls Keras's function for GPUs; with a mask, only if it is true and then false in every example."""
  for_gpu = {name: value for name, value in arguments.items() if name != "zero_output_for_mask"}
  mask = arguments["mask"]
  if mask is None:
    return gpu(**for_gpu)
  supported = gru_lstm_utils.is_cudnn_supported_inputs(
    mask, arguments["time_major"], arguments["sequence_lengths"]
  )
  return tf.cond(supported, lambda: gpu(**for_gpu), lambda: standard(**arguments))
