"""The table of models in docs/tasks.md: every task's models and their numbers of parameters.

python -m tasks.models.catalogue           prints the table
python -m tasks.models.catalogue --write   updates docs/tasks.md
"""

import argparse
import os
import pathlib
import re
from collections.abc import Callable
from typing import Any, NamedTuple

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import tensorflow as tf

from tasks import digits, emnist, gldv2_inaturalist, sent140, stackoverflow, stackoverflow_tag
from tasks.models import deep, images, tables, text
from tff_momentum.runtime import set_execution_context

GREY, CIFAR, CROP, LARGE = (28, 28, 1), (32, 32, 3), (24, 24, 3), (224, 224, 3)


PAGE = pathlib.Path(__file__).parents[2] / "docs" / "tasks.md"
SECTION = re.compile(r"(?<=<!-- models -->\n).*?(?=\n<!-- /models -->)", re.DOTALL)


class TaskModel(NamedTuple):
  """A model of a task.

  Attributes:
    task: the task's name.
    model: the value of `--model`, or a description if the task has one model only.
    build: () -> the Keras model.
    source: the paper or library that defines it.
  """

  task: str
  model: str
  build: "Callable[[], tf.keras.Model]"
  source: str


def _row(
  task: str, model: str, source: str, build: "Callable[..., tf.keras.Model]", *arguments: Any
) -> TaskModel:
  return TaskModel(task, model, lambda: build(*arguments), source)


REDDI, MCMAHAN = "Reddi et al. 2021, TFF", "McMahan et al. 2017, TFF"
ROWS = [
  _row("stackoverflow", "LSTM 670", REDDI, text.next_word, stackoverflow.WORDS + 4),
  _row("stackoverflow_tag", "logistic", REDDI, stackoverflow_tag.tag_model),
  _row("shakespeare", "lstm", MCMAHAN, text.next_characters, 90),
  _row("shakespeare", "lstm100", "GHBM", text.one_character_lstm, 80),
  _row("shakespeare", "gru", "FedGBO", text.one_character_gru, 79),
  _row("emnist_digits", "cnn", MCMAHAN, images.cnn, GREY, 10),
  _row("emnist_digits", "cnn_dropout", REDDI, images.cnn_dropout, GREY, 10),
  _row("emnist_digits", "2nn", MCMAHAN, images.dense(200), GREY, 10),
  _row("emnist", "cnn_dropout", REDDI, images.cnn_dropout, GREY, 62),
  _row("emnist", "cnn", MCMAHAN, images.cnn, GREY, 62),
  _row("emnist", "cnn_fedgbo", "FedGBO", images.cnn_fedgbo, GREY, 62),
  _row("emnist", "logistic", "–", images.logistic, GREY, 62),
  _row("emnist", "autoencoder", REDDI, images.autoencoder, emnist.SHAPE),
  _row("cifar100", "resnet18", REDDI, deep.resnet18, CROP, 100),
  _row("cifar100", "cnn_fedgbo", "FedGBO, crop=32", images.cnn_fedgbo, CIFAR, 100),
  _row("cifar10_dirichlet", "lenet", "GHBM, Hsu et al. 2019", images.lenet, CIFAR, 10),
  _row("cifar10_dirichlet", "lenet5", "LeCun et al. 1998", images.lenet5, CIFAR, 10),
  _row("cifar10_dirichlet", "resnet20", "GHBM, He et al. 2016", deep.resnet20, CIFAR, 10),
  _row("cifar10_dirichlet", "vgg11", "FedGM", deep.vgg11, CIFAR, 10),
  _row("cifar100_dirichlet", "lenet", "GHBM, Hsu et al. 2019", images.lenet, CIFAR, 100),
  _row("cifar100_dirichlet", "resnet20", "GHBM, He et al. 2016", deep.resnet20, CIFAR, 100),
  _row("cifar10_two_class", "mlp600", "FedGLOMO", images.dense(600), CIFAR, 10),
  _row("fashion_mnist", "mlp300", "FedGLOMO", images.dense(300), GREY, 10),
  _row("emnist_sorted", "logistic", "Mime", images.logistic, GREY, 47),
  _row("sent140", "linear", "FedGBO", sent140.linear),
  *(
    _row(
      name,
      model,
      "GHBM",
      gldv2_inaturalist.MODELS[model],
      LARGE,
      gldv2_inaturalist.FILES[name].classes,
    )
    for name in ("gldv2", "inaturalist")
    for model in ("mobilenet_v2", "vit_b16")
  ),
  _row("concrete", "linear", "Mime", tables.linear, 8),
  _row("diabetes", "linear", "–", tables.linear, 10),
  _row("digits", "mlp", "–", digits.mlp),
]


def parameters(build: "Callable[[], tf.keras.Model]") -> int:
  """Returns the number of trainable parameters of a Keras model, without initialising it."""
  with tf.Graph().as_default():
    return sum(weight.shape.num_elements() for weight in build().trainable_weights)


def table() -> str:
  """Returns the table in Markdown."""
  lines = ["| task | model | parameters | from |", "|---|---|---|---|"]
  lines += [f"| `{r.task}` | {r.model} | {parameters(r.build):,} | {r.source} |" for r in ROWS]
  return "\n".join(lines)


def main() -> None:
  """Prints the table, or writes it into the page."""
  parser = argparse.ArgumentParser(
    description=__doc__, formatter_class=argparse.RawTextHelpFormatter
  )
  parser.add_argument("--write", action="store_true", help="update docs/tasks.md")
  if parser.parse_args().write:
    page = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(SECTION.sub(table(), page), encoding="utf-8")
  else:
    print(table())


if __name__ == "__main__":
  set_execution_context()  # TFF's default context prints an error when the program ends
  main()
