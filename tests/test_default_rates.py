"""Default learning rates: each rule's value and reason, and that the defaults of all algorithms learn."""

import pytest

from experiments.checks import default_rates as trials
from tff_momentum import algorithms
from tff_momentum.default_rates import (
  LocalSgd,
  default_rates,
  frozen_momentum_rate,
  plain,
  reason,
  rule_of,
)
from tff_momentum.registry import ALGORITHMS

SGD = LocalSgd(learning_rate=0.3, steps=4.0)


def rates(algo, **given):
  return default_rates(algorithms.builder(algo), SGD, {**ALGORITHMS[algo].hyperparameters, **given})


@pytest.mark.parametrize("algo", ALGORITHMS)
def test_rules_give_hyperparameters_that_the_builder_has_and_say_why(algo):
  found = rates(algo)
  assert set(found) <= set(ALGORITHMS[algo].hyperparameters)
  assert reason(algorithms.builder(algo)).endswith(".")
  if "client_learning_rate" in ALGORITHMS[algo].hyperparameters:
    assert found["client_learning_rate"] > 0


@pytest.mark.parametrize(
  ("algo", "given", "expected"),
  [
    ("fedavg", {}, {"client_learning_rate": 0.3}),
    ("fedavg_lm", {}, {"client_learning_rate": 0.133}),  # 0.3 / mean(1, 1.9, 2.71, 3.439)
    ("fedavg_glm", {}, {"client_learning_rate": 0.0442}),  # a third of fedavg_lm's
    ("fedpaq_lm", {"beta_l": "step(0.5, every=10)"}, {"client_learning_rate": 0.196}),
    ("mime", {"optimizer": "sgd"}, {"client_learning_rate": 0.3}),
    ("mimelite", {"optimizer": "sgdm(0.5)"}, {"client_learning_rate": 0.15}),
    ("fedgbo", {}, {"client_learning_rate": 0.3}),
    ("fedcm", {}, {"client_learning_rate": 0.3}),
    ("fedcm", {"alpha": 1.0}, {"client_learning_rate": 0.3}),
    ("mime_mvr", {"a": 0.25}, {"client_learning_rate": 0.075}),  # 0.3 · 2 · 0.5 / 4
    ("mime_mvr", {"a": 1.0}, {"client_learning_rate": 0.3}),
    ("fedsgd", {}, {"server_learning_rate": 0.3}),
    ("fedsgd", {"optimizer": "sgdm(0.9)"}, {"server_learning_rate": 0.03}),
    ("fedsgd", {"optimizer": "mvr(0.1)"}, {"server_learning_rate": 0.3}),
    ("fedadagrad", {}, {"client_learning_rate": 0.3, "server_learning_rate": 0.03}),
    ("fedrmsprop", {}, {"client_learning_rate": 0.3, "server_learning_rate": 0.01}),
    (
      "fedrmsprop",
      {"beta2": 0.9999},
      {"client_learning_rate": 0.3, "server_learning_rate": 0.0012},
    ),
    ("fednova", {}, {"client_learning_rate": 0.133}),
    ("fedlion", {}, {"client_learning_rate": 0.003}),
    ("fedmuon", {}, {"client_learning_rate": 0.03}),
    ("mfl", {"optimizer": "muon"}, {"client_learning_rate": 0.03}),
    ("mfl", {"optimizer": "lion"}, {"client_learning_rate": 0.003}),
    ("diloco", {"inner": "sgd"}, {"client_learning_rate": 0.0429}),  # 0.3 / (0.7 / 0.1)
    ("autofedavg", {}, {"client_learning_rate": 0.3, "server_learning_rate": 2.8}),  # 0.7 · 4
    ("fedgm", {}, {"client_learning_rate": 0.3, "server_learning_rate": 2.12}),
    ("fedgm", {"nu": 0.0}, {"client_learning_rate": 0.3, "server_learning_rate": 1.0}),
    ("fednag", {}, {"client_learning_rate": 0.3, "server_learning_rate": 2.12}),
    ("fedsnv", {}, {"client_learning_rate": 0.3, "alpha": 0.212}),  # η = α/(1−β₁)
    (
      "fedgm_staged",
      {},
      {"client_learning_rate": 0.3, "stages": "stages_from(1000, 3, 1.85, 0.7, 0.9)"},
    ),
    ("autofedgm", {}, {"client_learning_rate": 0.3, "server_learning_rate": 5.93}),
    ("fedsam", {}, {"client_learning_rate": 0.3, "rho": 0.06}),
    ("fedspeed", {}, {"client_learning_rate": 0.3, "rho": 0.06}),
    ("mofedsam", {}, {"client_learning_rate": 0.3, "rho": 0.06}),
    ("scaffold_m", {}, {"client_learning_rate": 0.3}),
  ],
)
def test_a_rule_follows_the_hyperparameters(algo, given, expected):
  assert rates(algo, **given) == expected


@pytest.mark.parametrize(
  ("algo", "one_step", "sixteen_steps"),
  [
    ("fedavg", 0.3, 0.3),
    ("mime", 0.12, 0.0075),
    ("fedgbo", 1.2, 0.075),  # dampened: the same steps as Mime's
    ("fedcm", 1.2, 0.075),
    ("scaffold_m", 1.2, 0.075),
    ("mime_mvr", 0.19, 0.0119),
    ("mfl", 0.725, 0.725),  # its momentum moves with every local step, and starts at zero
  ],
)
def test_momentum_that_is_fixed_for_a_round_gets_a_rate_that_falls_with_the_local_steps(
  algo, one_step, sixteen_steps
):
  builder, defaults = algorithms.builder(algo), ALGORITHMS[algo].hyperparameters
  for steps, expected in ((1.0, one_step), (16.0, sixteen_steps)):
    found = default_rates(builder, LocalSgd(0.3, steps), defaults)
    assert found == {"client_learning_rate": expected}


def test_the_rate_of_frozen_momentum_is_at_most_that_of_sgd():
  assert frozen_momentum_rate(LocalSgd(0.3, 1.0), fresh=1.0, gain=2.0) == 0.3
  assert frozen_momentum_rate(LocalSgd(0.3, 16.0), fresh=1.0, gain=1.0) == 0.3  # no momentum


def assert_learn_on_digits(algos, folder):
  trials.run("digits", algos, str(folder), jobs=2)
  progress = trials.progress("digits", algos, str(folder))
  assert None not in progress.values()
  assert not {algo: share for algo, share in progress.items() if not share >= trials.AT_LEAST}


def test_runs_that_diverged_or_are_missing_have_no_number(tmp_path):
  for algo, rounds in (("fedavg", 30), ("fedprox", 30), ("fedmax", 7)):
    folder = tmp_path / "digits" / f"{algo}-seed=1"
    folder.mkdir(parents=True)
    accuracy = 0.5 if algo == "fedprox" else 0.9
    lines = ["round,eval/accuracy", *(f"{t},{accuracy}" for t in range(1, rounds + 1))]
    (folder / "metrics.csv").write_text("\n".join(lines))
    (folder / "summary.json").write_text("{}")
  algos = ["fedavg", "fedprox", "fedmax", "fedsgd"]
  found = trials.progress("digits", algos, str(tmp_path))
  cells = {"digits": {"fedavg": "1.00", "fedprox": "0.50", "fedmax": "diverged"}}
  assert {"digits": trials.cells(found)} == cells
  table = trials.markdown(cells, algos)
  assert table.splitlines()[2:] == [
    "| `fedavg` | 1.00 |",
    "| `fedprox` | 0.50 |",
    "| `fedmax` | diverged |",
    "| `fedsgd` (4 × the rounds) | – |",
  ]
  assert trials.read_table(table) == cells


def test_new_cells_replace_those_of_the_page_and_others_stay(tmp_path, monkeypatch):
  page = tmp_path / "page.md"
  before = trials.markdown({"digits": {"fedavg": "1.00", "fedsgd": "0.90"}}, list(ALGORITHMS))
  page.write_text(f"Before.\n{trials.BEGIN}\n{before}\n{trials.END}\nAfter.\n")
  monkeypatch.setattr(trials, "PAGE", page)
  trials.write({"digits": {"fedsgd": 0.95, "scaffold": None}, "shakespeare": {"scaffold": 1.1}})
  text = page.read_text()
  assert text.startswith("Before.\n")
  assert text.endswith("\nAfter.\n")
  assert trials.read_table(text) == {
    "digits": {"fedavg": "1.00", "fedsgd": "0.95"}, "shakespeare": {"scaffold": "1.10"},
  }  # fmt: skip


def test_the_table_in_the_docs_is_complete_and_every_default_learns():
  table = trials.read_table(
    trials.PAGE.read_text().partition(trials.BEGIN)[2].partition(trials.END)[0]
  )
  assert set(table) == set(trials.TRIALS)
  for task, cells in table.items():
    assert set(cells) == set(ALGORITHMS), task
    slow = {algo: cell for algo, cell in cells.items() if not float(cell) >= trials.AT_LEAST}
    assert not slow, task


def test_defaults_that_follow_a_rule_of_their_own_learn_on_digits(tmp_path):
  ruled = [algo for algo in ALGORITHMS if rule_of(algorithms.builder(algo)) is not plain]
  assert len(ruled) > 10
  assert_learn_on_digits(["fedavg", *ruled], tmp_path)


@pytest.mark.slow
def test_defaults_of_all_algorithms_learn_on_digits(tmp_path):
  assert_learn_on_digits(list(ALGORITHMS), tmp_path)
