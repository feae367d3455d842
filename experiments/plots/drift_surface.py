"""Client drift: the paths of algorithms over the loss surface of two quadratic clients in the plane."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from experiments.reports import palette
from experiments.reports.figures import RC, plt
from tasks.quadratic import quadratic_model
from tff_momentum import algorithms, registry
from tff_momentum.client import LocalWork
from tff_momentum.diagnostics.drift import ClientDrift
from tff_momentum.processes.process import ClientInput, build_process

# One row per client: its curvature along the two axes, and its optimum.
CURVATURE = np.array([[3.0, 0.3], [0.3, 1.5]])
OPTIMA = np.array([[-1.4, -0.8], [1.4, 0.8]])
OPTIMUM = (CURVATURE * OPTIMA).sum(axis=0) / CURVATURE.sum(axis=0)  # of f, the mean of the two
START = np.array([-1.2, 2.0])
# Arguments for the builders that take them. A momentum of 0.9 would leave the plotted region immediately.
ARGUMENTS = {"num_clients": 2, "participation": 1.0, "total_examples": 2, "beta": 0.5, "tau": 2,
             "optimizer": "sgdm(0.5)"}  # fmt: skip


class Paths(NamedTuple):
  """The server's model after each round; the local models of each round, client 1 then client 2."""

  server: list[np.ndarray]
  local: list[list[np.ndarray]]


def train(name: str, rate: float, steps: int, rounds: int) -> Paths:
  """Trains an algorithm with both clients in every round."""
  known = registry.info(name).hyperparameters
  arguments = {**ARGUMENTS, "client_learning_rate": rate}
  algorithm = algorithms.build(
    name, {key: value for key, value in arguments.items() if key in known}
  )
  model = quadratic_model(OPTIMUM, START)
  process = build_process(algorithm, model, work=LocalWork(steps=steps))
  drift, state = ClientDrift(process, alpha=False), process.initialize()
  states = [process.initial_client_state(np.array([1, i], np.int32)) for i in range(2)]
  paths = Paths([START], [])

  def clients() -> list[ClientInput]:
    linear = CURVATURE * (OPTIMUM - OPTIMA)  # client i is minimal at its own optimum
    rows = zip(CURVATURE.astype(np.float32), linear.astype(np.float32), strict=True)
    return [
      ClientInput(
        seed=np.array([2, i], np.int32),
        state=states[i],
        data=tf.data.Dataset.from_tensors((a[None], b[None])),
      )
      for i, (a, b) in enumerate(rows)
    ]

  for _ in range(rounds):
    after_steps = [models for _, models in drift.steps(state, clients())]
    for i in range(2):
      paths.local.append([paths.server[-1], *(np.ravel(models[i][0]) for models in after_steps)])
    output = process.next(state, clients())
    state, states = output.state, output.clients
    paths.server.append(np.ravel(process.weights(state)[0]))
  return paths


def draw(paths: Mapping[str, Paths]) -> plt.Figure:
  """Draws one panel per algorithm: contours of f, the clients' local steps, the server's models."""
  x, y = np.meshgrid(np.linspace(-2.1, 2.1, 300), np.linspace(-1.6, 2.4, 300))
  points = np.stack([x, y], axis=-1) - OPTIMUM
  f = (CURVATURE.mean(axis=0) * points**2).sum(axis=-1) / 2  # minus its minimum
  with plt.rc_context(RC):
    figure, axes = plt.subplots(
      1, len(paths), figsize=(3.7 * len(paths), 3.9), sharey=True, squeeze=False
    )
    for panel, (name, path) in zip(axes[0], paths.items(), strict=True):
      panel.contour(
        x, y, f, [0.03, 0.12, 0.3, 0.6, 1.1, 1.8, 2.8, 4.2], colors="#B9C0C7", linewidths=0.8
      )
      for number, colour in enumerate(palette.COLOURS[1:3]):
        for local in path.local[number::2]:
          panel.plot(*np.stack(local).T, color=colour, linewidth=1.1)
        panel.plot(*OPTIMA[number], "s", color=colour, label=f"optimum of client {number + 1}")
      panel.plot(*np.stack(path.server).T, "o-", color="black", markersize=3.5, linewidth=0.9,
                 label="server")  # fmt: skip
      panel.plot(*OPTIMUM, "*", color="#D55E00", markersize=15, label="optimum of f")
      away = float(np.linalg.norm(path.server[-1] - OPTIMUM))
      panel.set_title(f"{name}: {away:.1g} away")
      panel.grid(visible=False)
      panel.set_xlim(-2.1, 2.1)
      panel.set_ylim(-1.6, 2.4)
    axes[0, -1].legend(loc="center left", bbox_to_anchor=(1.01, 0.5))
  return figure
