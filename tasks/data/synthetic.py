"""Synthetic data with the schema of the real data sets, heterogeneous clients and a learnable signal.

A client is generated when it is read, from (seed, its number); only the clients' sizes are stored, so any
number of clients is possible. The test examples come from clients that do not train.
"""

from collections.abc import Callable, Mapping

import numpy as np

from tasks.data.batches import NumberedIds
from tasks.data.sources import Raw, Source
from tff_momentum import validation

# (the client's own random generator, number of examples) -> examples
Make = Callable[[np.random.Generator, int], Raw]
# (the client's own random generator) -> probabilities of the classes
ClassLaw = Callable[[np.random.Generator], np.ndarray]


def synthetic_source(
  make: Make,
  *,
  seed: int,
  num_clients: int,
  examples: float,
  max_examples: int | None = None,
  spread: float = 0.5,
  test_clients: int = 50,
) -> Source:
  """Returns a source of generated clients.

  Args:
    make: generates examples.
    seed: seed of all sizes and examples.
    num_clients: number of clients; any number is possible.
    examples: median number of examples of a client.
    max_examples: upper bound on a client's examples.
    spread: standard deviation of the logarithm of the sizes; 0 makes them equal.
    test_clients: number of clients that the test examples come from.

  Raises:
    ValueError: an argument is invalid.
  """
  validation.integer("num_clients", num_clients, at_least=1)
  if max_examples is not None:
    validation.integer("max_examples_per_client", max_examples, at_least=1)
  logs = np.random.default_rng([seed, 0]).standard_normal(num_clients) * spread
  sizes = np.maximum(1, np.rint(examples * np.exp(logs))).astype(np.int32)
  if max_examples is not None:
    sizes = np.minimum(sizes, max_examples)

  def read(client: str) -> Raw:
    return make(np.random.default_rng([seed, 1, int(client)]), int(sizes[int(client)]))

  def read_test() -> Raw:
    parts = [
      make(np.random.default_rng([seed, 2, k]), max(1, round(examples)))
      for k in range(test_clients)
    ]
    return {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}

  return Source(
    "synthetic", NumberedIds(num_clients), int(sizes.sum(dtype=np.int64)), read, read_test
  )


def class_law(alpha: float | None, classes: int) -> ClassLaw:
  """Returns a sampler of a client's class distribution.

  Args:
    alpha: the distribution is Dir(α/classes, …), as in the Dirichlet split; 0 means one class, None two.
    classes: number of classes.
  """

  def draw(rng: np.random.Generator) -> np.ndarray:
    q = np.zeros(classes)
    if alpha is None:
      q[rng.choice(classes, min(2, classes), replace=False)] = 1 / min(2, classes)
    elif alpha == 0:
      q[rng.integers(classes)] = 1
    else:
      a = alpha / classes
      logs = np.log(rng.gamma(a + 1, size=classes)) + np.log(rng.random(classes)) / a
      q = np.exp(logs - logs.max())
    return q / q.sum()

  return draw


def images(
  shape: tuple[int, int, int],
  classes: int,
  law: ClassLaw,
  columns: tuple[str, str] = ("image", "label"),
  noise: float = 40.0,
) -> Make:
  """Returns a generator of images: a coarse pattern for each class, plus the client's tint and noise.

  Args:
    shape: (height, width, channels).
    classes: number of classes.
    law: samples a client's class distribution.
    columns: names of the image and the label column.
    noise: standard deviation of the noise of a pixel, on the scale 0 to 255.
  """

  def pattern(label: int) -> np.ndarray:
    coarse = np.random.default_rng([7, label]).uniform(0, 255, (7, 7, shape[2]))
    scale = -(-max(shape[:2]) // 7)
    return np.kron(coarse, np.ones((scale, scale, 1)))[: shape[0], : shape[1]]

  def make(rng: np.random.Generator, count: int) -> Raw:
    labels = rng.choice(classes, size=count, p=law(rng))
    tint = rng.normal(0, 15, (1, 1, 1, shape[2]))
    distinct, place = np.unique(labels, return_inverse=True)
    clean = np.stack([pattern(int(k)) for k in distinct]) if count else np.zeros((0, *shape))
    noisy = clean[place] + tint + rng.normal(0, noise, (count, *shape))
    return {
      columns[0]: np.clip(noisy, 0, 255).astype(np.uint8),
      columns[1]: labels.astype(np.int64),
    }

  return make


def posts(vocabulary: list[str], tags: list[str], sentence: int = 15) -> Make:
  """Returns a generator of Stack Overflow's columns.

  A word mostly determines the next one, and the topic of a post determines its tags.

  Args:
    vocabulary: the words.
    tags: the tags; an empty list if the task needs none.
    sentence: largest number of words of a post.
  """
  words, topics = len(vocabulary), min(50, max(1, len(tags)))
  weights = 1 / np.arange(1, words + 1)
  cumulative = np.cumsum(weights / weights.sum())
  follower = np.random.default_rng(7).permutation(words)
  spelled = np.array([word.encode() for word in vocabulary], object)

  def make(rng: np.random.Generator, count: int) -> Raw:
    topic = rng.choice(topics, size=3)[rng.integers(0, 3, count)]  # three topics per client
    tokens = np.empty((count, sentence), np.int64)
    fresh = np.searchsorted(cumulative, rng.random((count, sentence)))
    fresh = np.minimum((fresh + topic[:, None]) % words, words - 1)
    follows = rng.random((count, sentence)) < 0.7
    tokens[:, 0] = fresh[:, 0]
    for k in range(1, sentence):
      tokens[:, k] = np.where(follows[:, k], follower[tokens[:, k - 1]], fresh[:, k])
    lengths = rng.integers(min(4, sentence), sentence + 1, count)
    lines = [b" ".join(spelled[row[:n]]) for row, n in zip(tokens, lengths, strict=True)]
    told = [f"{tags[t]}|{tags[(t * 7 + 1) % len(tags)]}".encode() for t in topic] if tags else [b""]
    column = np.array(lines, object)
    return {
      "creation_date": np.full(count, b"2016-01-01 00:00:00 UTC", object),
      "score": rng.integers(-2, 10, count),
      "tags": np.array(told, object),
      "title": np.array(
        [b" ".join(spelled[[t, t + 1]]) if words > 51 else b"" for t in topic], object
      ),
      "tokens": column,
      "type": np.full(count, b"question", object),
    }

  return make


def speeches() -> Make:
  """Returns a generator of Shakespeare's column: lines of words from the client's part of a small lexicon."""
  rng = np.random.default_rng(7)
  letters = np.array(list("etaoinshrdlucmfwyp"))
  lexicon = ["".join(rng.choice(letters, rng.integers(2, 8))) for _ in range(300)]

  def make(rng: np.random.Generator, count: int) -> Raw:
    favourites = rng.choice(len(lexicon), 60, replace=False)
    lines = []
    for _ in range(count):
      chosen = [lexicon[favourites[k]] for k in rng.integers(0, 60, rng.integers(4, 25))]
      lines.append((" ".join(chosen).capitalize() + ".").encode())
    return {"snippets": np.array(lines, object)}

  return make


def tweets() -> Make:
  """Returns a generator of Sentiment140's columns: some words reveal the sentiment, the others do not."""

  def make(rng: np.random.Generator, count: int) -> Raw:
    mood, own = rng.beta(0.7, 0.7), rng.integers(200, 2000, 40)
    positive = rng.random(count) < mood
    texts = []
    for good in positive:
      telling = rng.integers(0, 100, 2) + (0 if good else 100)
      other = own[rng.integers(0, 40, rng.integers(3, 12))]
      texts.append(" ".join(f"w{k}" for k in rng.permutation(np.r_[telling, other])).encode())
    return {"text": np.array(texts, object), "polarity": np.where(positive, 4, 0).astype(np.int32)}

  return make


def table(features: int, rows: int, seed: int) -> Mapping[str, np.ndarray]:
  """Returns a regression table: a linear function with a quadratic term and noise.

  Args:
    features: number of features.
    rows: number of rows.
    seed: seed of the rows; the function is always the same.
  """
  rng = np.random.default_rng([seed, 3])
  x = rng.normal(size=(rows, features))
  w = np.random.default_rng(7).normal(size=features)
  y = x @ w + 0.5 * np.maximum(x[:, 0], 0) ** 2 + 0.5 * rng.normal(size=rows)
  return {"features": x, "target": y}
