"""TensorBoard's files, read back with TensorBoard's own code: HParams with metrics, the profiler's plugin."""

import math
import tomllib

import pytest

from experiments.runs.columns import header
from experiments.runs.folder import RunFolder
from experiments.training.hooks import profile
from experiments.training.hooks.metrics_csv import MetricsCsv
from experiments.training.hooks.tensorboard import TensorBoard
from tests import ROOT
from tests.helpers import forked_runs
from tff_momentum.simulation.loop import Round


def hparams_sessions(logdir):
  """The rows of the HParams tab as its backend sends them: hyperparameters and metrics by run."""
  import tensorboard.context
  from tensorboard.backend.event_processing import data_provider, plugin_event_multiplexer
  from tensorboard.plugins import base_plugin
  from tensorboard.plugins.hparams import (
    api_pb2,
    backend_context,
    get_experiment,
    list_session_groups,
  )

  multiplexer = plugin_event_multiplexer.EventMultiplexer().AddRunsFromDirectory(str(logdir))
  multiplexer.Reload()
  provider = data_provider.MultiplexerDataProvider(multiplexer, str(logdir))
  context = backend_context.Context(base_plugin.TBContext(data_provider=provider))
  request_context = tensorboard.context.RequestContext()
  experiment = get_experiment.Handler(request_context, context, "").run()
  offered = {info.name.tag for info in experiment.metric_infos}
  request = api_pb2.ListSessionGroupsRequest(
    slice_size=10,
    allowed_statuses=[api_pb2.STATUS_UNKNOWN, api_pb2.STATUS_SUCCESS, api_pb2.STATUS_RUNNING],
    col_params=[api_pb2.ColParams(metric=info.name) for info in experiment.metric_infos],
  )
  groups = list_session_groups.Handler(request_context, context, "", request).run()
  found = {}
  for group in groups.session_groups:
    (session,) = group.sessions
    given = {
      name: getattr(value, value.WhichOneof("kind")) for name, value in group.hparams.items()
    }
    found[session.name] = (given, {m.name.tag: m.value for m in session.metric_values})
  return offered, found


def train(root, name, accuracies, resumed_after=0, **hyperparameters):
  """Feeds the hooks with rounds, as the trainer does; the last two rounds are one save."""
  config = {"experiment_name": name, "algo": name, "hyperparameters": hyperparameters}
  folder = RunFolder.open(str(root), config)
  folder.start_metrics(header(["loss", "accuracy"]), resumed_after)
  csv, board = (
    MetricsCsv(folder),
    TensorBoard(folder.path / "tensorboard", config, metrics_csv=folder.path / "metrics.csv"),
  )
  for t, accuracy in enumerate(accuracies[resumed_after:], resumed_after):
    row = {"round": t + 1, "train/loss": 1.0, "bytes/total": 8}
    if accuracy is not None:
      row.update({"eval/loss": 2.0 / (t + 1), "eval/accuracy": accuracy})
    for hook in (csv, board):
      hook.after_round(Round(t, None, row))
  for hook in (csv, board):
    hook.save(Round(t, None, row))
  board.end()
  folder.close()


def test_hparams_shows_hyperparameters_with_final_values_and_last_evaluations(tmp_path):
  train(tmp_path, "fedavg", [0.1, 0.2, 0.4, 0.6, None], client_learning_rate=0.1)
  ghbm = {"client_learning_rate": 0.3, "beta": 0.9, "optimizer": "sgd"}
  train(tmp_path, "ghbm", [0.1, 0.2], **ghbm)
  # Resumed: the final value averages over the rounds before the interruption too.
  train(tmp_path, "ghbm", [0.1, 0.2, 0.6, 0.8], 2, **ghbm)
  offered, sessions = hparams_sessions(tmp_path)
  names = {f"{kind} eval/{metric}" for kind in ("final", "last") for metric in ("accuracy", "loss")}
  assert offered == names
  given, measured = sessions["fedavg/tensorboard/hyperparameters"]
  assert given["client_learning_rate"] == pytest.approx(0.1)
  assert given["algo"] == "fedavg"
  # Five rounds: the final value is the mean over rounds 4 and 5, of which the fourth was evaluated.
  expected = {"final eval/accuracy": 0.6, "final eval/loss": 0.5}
  expected |= {"last eval/accuracy": 0.6, "last eval/loss": 0.5}
  assert measured == pytest.approx(expected)
  given, measured = sessions["ghbm/tensorboard/hyperparameters"]
  assert (given["beta"], given["optimizer"]) == (pytest.approx(0.9), "sgd")
  assert measured["final eval/accuracy"] == pytest.approx(0.7)
  assert measured["last eval/accuracy"] == pytest.approx(0.8)


def test_a_diverged_run_has_no_finite_metric(tmp_path):
  train(tmp_path, "fedavg", [0.1, 0.2, math.nan], client_learning_rate=0.1)
  _, sessions = hparams_sessions(tmp_path)
  ((_, measured),) = sessions.values()
  assert not math.isfinite(measured["final eval/accuracy"])


def test_a_real_run_fills_hparams(tmp_path):
  ended = forked_runs.run(
    "--task=digits", "--num_clients=20", "--quiet", "--algo=fedavgm", "--total_rounds=4", "--set=beta=0.5",
    f"--root_output_dir={tmp_path}", "--experiment_name=one",
  )  # fmt: skip
  assert ended.returncode == 0, ended.output
  _, sessions = hparams_sessions(tmp_path)
  ((given, measured),) = sessions.values()
  assert given["beta"] == pytest.approx(0.5)
  assert given["task"] == "digits"
  assert 0 < measured["final eval/accuracy"] <= 1
  assert measured["last eval/loss"] > 0


def test_profile_says_how_to_view_the_trace_if_the_plugin_is_missing(tmp_path, capsys, monkeypatch):
  monkeypatch.setattr(profile, "PLUGIN", "no_such_plugin")
  profile.Profile(tmp_path, 1).start()
  said = capsys.readouterr().err.strip()
  assert said == profile.ADVICE
  assert said.count("\n") == 0
  monkeypatch.setattr(profile, "PLUGIN", "json")
  profile.Profile(tmp_path, 1).start()
  assert capsys.readouterr().err == ""


def test_the_advice_names_the_version_of_the_extra():
  extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
  (plugin,) = (pin for pin in extras["profile"] if pin.startswith("tensorboard-plugin-profile"))
  assert plugin in profile.ADVICE
