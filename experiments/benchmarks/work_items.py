"""The work items: the same models, examples and initial weights for every competitor.

Sizes and seeds are those of a benchmark of several libraries, so that `check`, the distance that the weights
moved, can be compared with theirs.
"""

import dataclasses
from collections.abc import Iterator, Sequence

import numpy as np

CLIENT_LEARNING_RATE = 0.05
SERVER_MOMENTUM = 0.9
RESNET_WIDTH = 16
SEQUENCE_LENGTH = 80


@dataclasses.dataclass(frozen=True)
class Item:
  """A model and the work of a round: clients, examples per client, batch size."""

  name: str
  model: str
  clients: int
  examples: int
  batch: int
  classes: int
  shape: tuple[int, ...]


ITEMS = {
  "A": Item("emnist_cnn", "cnn", 10, 100, 20, 62, (28, 28, 1)),
  "B": Item("emnist_logreg", "logreg", 100, 100, 20, 62, (784,)),
  "C": Item("shakespeare_gru", "gru", 10, 50, 10, 90, (SEQUENCE_LENGTH,)),
  "D": Item("cifar_resnet", "resnet", 10, 40, 20, 100, (24, 24, 3)),
  "E": Item("scale_logreg", "logreg", 1000, 100, 20, 62, (784,)),
  "F": Item("cifar_cnn", "cnn", 50, 50, 10, 10, (32, 32, 3)),
}


def examples(item: Item, client: int) -> tuple[np.ndarray, np.ndarray]:
  """A client's features and labels, drawn with the seed (0, client)."""
  draw = np.random.default_rng([0, client])
  if item.model == "gru":
    length = SEQUENCE_LENGTH + 1
    text = draw.integers(0, item.classes, size=(item.examples, length), dtype=np.int32)
    return np.ascontiguousarray(text[:, :-1]), np.ascontiguousarray(text[:, 1:])
  x = draw.standard_normal((item.examples, *item.shape), dtype=np.float32)
  return x, draw.integers(0, item.classes, size=item.examples, dtype=np.int32)


def residual_blocks() -> Iterator[tuple[str, int, int, int]]:
  """Name, input channels, output channels and stride of the ResNet's eight blocks."""
  channels = RESNET_WIDTH
  for stage, width in enumerate(RESNET_WIDTH * 2**s for s in range(4)):
    for block in range(2):
      yield f"s{stage}b{block}", channels, width, 2 if stage and not block else 1
      channels = width


def initial_weights(item: Item) -> dict[str, list[np.ndarray]]:
  """The initial weights by layer name, drawn with seed 1 in the order of the layers."""
  draw = np.random.default_rng(1)

  def uniform(limit: float, *shape: int) -> np.ndarray:
    return draw.uniform(-limit, limit, size=shape).astype(np.float32)

  def glorot(*shape: int) -> np.ndarray:
    fan = int(np.prod(shape[:-2])) * (shape[-2] + shape[-1])
    return uniform(np.sqrt(6.0 / fan), *shape)

  def zeros(*shape: int) -> np.ndarray:
    return np.zeros(shape, np.float32)

  def layer(*shape: int) -> list[np.ndarray]:
    return [glorot(*shape), zeros(shape[-1])]

  def norm(width: int) -> list[np.ndarray]:
    return [np.ones(width, np.float32), zeros(width)]

  if item.model == "logreg":
    return {"head": layer(784, item.classes)}
  if item.model == "cnn":
    side = ((item.shape[0] - 2) // 2 - 2) // 2  # after two 3×3 convolutions, each pooled by 2
    return {
      "conv1": layer(3, 3, item.shape[-1], 32),
      "conv2": layer(3, 3, 32, 64),
      "dense": layer(64 * side**2, 512),
      "head": layer(512, item.classes),
    }
  if item.model == "gru":
    return {
      "embed": [uniform(0.05, item.classes, 8)],
      "gru1": [glorot(8, 384), glorot(128, 384), zeros(2, 384)],
      "gru2": [glorot(128, 384), glorot(128, 384), zeros(2, 384)],
      "head": layer(128, item.classes),
    }
  weights = {"stem": [glorot(3, 3, 3, RESNET_WIDTH)], "stem_gn": norm(RESNET_WIDTH)}
  for name, before, after, stride in residual_blocks():
    weights[f"{name}_conv1"], weights[f"{name}_gn1"] = [glorot(3, 3, before, after)], norm(after)
    weights[f"{name}_conv2"], weights[f"{name}_gn2"] = [glorot(3, 3, after, after)], norm(after)
    if (before, stride) != (after, 1):
      weights[f"{name}_proj"], weights[f"{name}_projgn"] = (
        [glorot(1, 1, before, after)],
        norm(after),
      )
  weights["head"] = layer(8 * RESNET_WIDTH, item.classes)
  return weights


def distance(final: Sequence[np.ndarray], initial: Sequence[np.ndarray]) -> float:
  """The L2 distance between two models, which is equal for competitors that do the same work."""
  squares = [
    np.sum((np.asarray(a, np.float64) - np.asarray(b, np.float64)) ** 2)
    for a, b in zip(final, initial, strict=True)
  ]
  return float(np.sqrt(sum(squares)))
