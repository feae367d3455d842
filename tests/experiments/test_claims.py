"""Claims: their names exist, runs follow the protocol, expectations hold or fail, the page is up to date."""

import dataclasses
import json
import re
import subprocess
import sys

import pytest

from experiments import claims
from experiments.claim_trials import expectations, figures, full_scale, results_page, runner
from experiments.claim_trials.claim import (
  Arm,
  Claim,
  Diagnostic,
  Panel,
  Results,
  TrialSetting,
)
from experiments.claim_trials.registry import CLAIMS, QUICK
from experiments.cli import flags, presets
from experiments.runs import reader
from tests import ROOT
from tests.helpers.report_runs import write_run

PANEL = Panel(
  TrialSetting("s", "a setting", "digits", (), rounds=4, seeds=(1, 2, 3)),
  (Arm("A", "fedavg"), Arm("B", "scaffold")),
)


@pytest.fixture(scope="module", autouse=True)
def defined_flags():
  if "task" not in flags.FLAGS:
    flags.define_flags()


def results(tmp_path, a, b, **columns):
  """Final accuracies by seed, of two methods."""
  made = {
    ("s", label): [
      reader.read(write_run(tmp_path, algo, [0.1, 0.2, final, final], seed=seed, **columns))
      for seed, final in enumerate(finals, 1)
    ]
    for label, algo, finals in (("A", "fedavg", a), ("B", "scaffold", b))
  }
  tuned = {key: {"client_learning_rate": "0.1"} for key in made}
  return Results(made, tuned, {key: [] for key in made})


@pytest.mark.parametrize("claim", CLAIMS.values(), ids=lambda claim: claim.name)
def test_a_claim_names_methods_hyperparameters_and_presets_that_exist(claim):
  for panel in claim.panels:
    assert len(panel.setting.seeds) >= 3
    assert runner.TUNING_SEED not in panel.setting.seeds
    for arm in panel.arms:
      assert runner.tuning_runs(runner.search_space(panel.setting, arm, "data"))
  assert len(claim.axes) == len(claim.panels)
  assert presets.names(claim.presets)


def test_methods_of_a_panel_share_the_setting_s_grid():
  for claim in CLAIMS.values():
    for panel in claim.panels:
      spaces = [runner.search_space(panel.setting, arm, "data") for arm in panel.arms]
      for name, values in panel.setting.grid.items():
        assert all(
          grid.values == values for e in spaces for grid in e.grids if grid.name == name
        ), claim


def test_to_beat_is_to_be_better_in_every_seed(tmp_path):
  test = expectations.beats(PANEL, "A", "B")
  assert test(results(tmp_path / "1", [0.9, 0.8, 0.7], [0.8, 0.7, 0.6])).holds
  lost_one = test(results(tmp_path / "2", [0.9, 0.8, 0.5], [0.8, 0.7, 0.6]))
  assert not lost_one.holds
  assert "better in 2 of 3 seeds" in lost_one.text
  assert not test(results(tmp_path / "3", [0.9] * 3, [0.9] * 3)).holds  # equal is not better


def test_at_least_allows_for_a_point(tmp_path):
  test = expectations.at_least(PANEL, "A", "B")
  assert test(results(tmp_path / "1", [0.895] * 3, [0.9] * 3)).holds
  assert not test(results(tmp_path / "2", [0.85] * 3, [0.9] * 3)).holds


def test_a_lead_can_have_a_least_size(tmp_path):
  found = results(tmp_path, [0.9] * 3, [0.8] * 3)
  assert expectations.ahead(PANEL, "A", "B", 0.09)(found).holds
  assert not expectations.ahead(PANEL, "A", "B", 0.11)(found).holds


def with_drift(tmp_path, **drifts):
  """Two methods that measured `drift` in some rounds, with the same values for all seeds."""
  made = {
    ("s", label): [
      reader.read(write_run(tmp_path, algo, [0.1, 0.2, 0.3, 0.4], seed=seed,
                            columns={"drift": drifts[label], "norm": [2.0] * 4}))
      for seed in (1, 2, 3)
    ]
    for label, algo in (("A", "fedavg"), ("B", "scaffold"))
  }  # fmt: skip
  return Results(made, {key: {} for key in made}, {key: [] for key in made})


def test_diagnostics_are_compared_by_mean_and_with_a_bound_by_median(tmp_path):
  drift = Diagnostic(PANEL, "drift per norm", "drift", over="norm")
  found = with_drift(tmp_path, A=[1.0, None, 2.0, 9.0], B=[8.0, None, 8.0, 8.0])
  assert expectations.smaller(drift, "A", "B")(found).holds
  assert not expectations.smaller(drift, "B", "A")(found).holds
  below = expectations.below(drift, "A", 1.5)(found)
  assert below.holds
  assert "drift per norm of A: 1 (median over rounds)" in below.text
  assert not expectations.below(drift, "A", 0.9)(found).holds


def test_a_claim_draws_its_diagnostics(tmp_path):
  claim = Claim(
    "demo", "A drifts less.", "", (PANEL,), (), diagnostics=(Diagnostic(PANEL, "drift", "drift"),)
  )
  found = with_drift(tmp_path, A=[1.0, None, 2.0, 9.0], B=[8.0, None, 8.0, 8.0])
  drawn = figures.draw(claim, found).axes[1]
  assert drawn.get_ylabel() == "drift"
  lines = {line.get_label(): line.get_xydata().tolist() for line in drawn.lines}
  assert lines["A"] == [[1, 1], [3, 2], [4, 9]]


def test_sooner_needs_the_mean_and_most_seeds(tmp_path):
  test = expectations.sooner(PANEL, "A", "B", 0.5)
  assert test(results(tmp_path / "1", [0.9] * 3, [0.3] * 3)).holds
  assert not test(results(tmp_path / "2", [0.9, 0.3, 0.3], [0.3, 0.9, 0.9])).holds


def test_cost_is_counted_to_the_other_s_final_value(tmp_path):
  found = results(tmp_path, [0.9] * 3, [0.2] * 3)  # A is at 0.2 in round 2; so is B
  assert not expectations.cheaper(PANEL, "A", "B", "bytes", 0.5)(found).holds
  assert expectations.cheaper(PANEL, "A", "B", "bytes", 1.0)(found).holds
  never = expectations.cheaper(PANEL, "B", "A", "bytes", 0.5)(found)
  assert not never.holds
  assert "never reaches" in never.text


def test_cost_can_charge_the_other_for_all_its_rounds(tmp_path):
  found = results(tmp_path, [0.9] * 3, [0.2] * 3)  # A is at 0.2 in round 2; B has four rounds
  test = expectations.cheaper(PANEL, "A", "B", "bytes", 0.5, whole=True)
  assert test(found).holds
  assert "A / B (all its rounds) = 0.50" in test(found).text


def test_numbers_and_ranking_are_compared_with_the_printed_ones(tmp_path):
  panel = dataclasses.replace(PANEL, printed={"A": "81.0 ± 0.5", "B": "70.0"})
  found = results(tmp_path, [0.9, 0.8, 0.7], [0.8, 0.7, 0.6])
  near = expectations.as_printed(panel, "A", 0.015)(found)
  assert near.holds
  assert "A 80.0 ± 10.0 %, in the paper 81.0 ± 0.5 %: 1.0 points below" in near.text
  assert not expectations.as_printed(panel, "A", 0.005)(found).holds
  assert expectations.ranked_as_printed(panel, ["B", "A"])(found).holds
  reversed_panel = dataclasses.replace(PANEL, printed={"A": "70.0", "B": "81.0"})
  assert not expectations.ranked_as_printed(reversed_panel, ["A", "B"])(found).holds


def test_a_setting_can_average_over_the_paper_s_number_of_last_rounds(tmp_path):
  folders = [write_run(tmp_path, "fedavg", [0.1, 0.2, 0.6, 0.9], seed=seed) for seed in (1, 2, 3)]
  found = Results({("s", "A"): [reader.read(folder) for folder in folders]}, {}, {})
  for last, mean in ((None, 0.75), (1, 0.9), (3, 17 / 30)):
    panel = Panel(dataclasses.replace(PANEL.setting, last_rounds=last), PANEL.arms[:1])
    assert found.final(panel, "A").mean == pytest.approx(mean)


def test_run_time_is_known_for_runs_from_the_archive(tmp_path):
  for seed, seconds in ((1, 40.0), (2, 50.0)):
    run = tmp_path / "seeds" / f"s.A-seed={seed}"
    run.mkdir(parents=True)
    (run / "summary.json").write_text(json.dumps({"rounds": 4, "seconds/train": seconds}))
  assert claims.hours_of(tmp_path, "s") == pytest.approx(90 / 3600)
  assert claims.hours_of(tmp_path, "other") == 0


def test_the_page_gives_verdicts_numbers_and_figures(tmp_path):
  claim = Claim(
    "demo", "A is better than B.", "GHBM, Table 1", (PANEL,),
    (expectations.beats(PANEL, "A", "B"), expectations.beats(PANEL, "B", "A")),
    checked="the oracle.", presets="ghbm/table1",
  )  # fmt: skip
  found = results(tmp_path / "runs", [0.9, 0.8, 0.7], [0.8, 0.7, 0.6])
  results_page.write(tmp_path / "RESULTS.md", [claim], [CLAIMS["tau"]], found, {"s": 0.5}, "")
  text = (tmp_path / "RESULTS.md").read_text()
  for part in ("holds in part", "✓", "✗", "80.0 ± 10", "results/demo.png", "claims.py demo",
               "the oracle", "client_learning_rate 0.1",
               "| tau | GHBM, Figure 1 | not run yet | | |"):  # fmt: skip
    assert part in text
  assert (tmp_path / "results" / "demo.png").stat().st_size > 5000


def test_a_page_keeps_the_sections_of_claims_that_are_not_tested_again(tmp_path):
  page = tmp_path / "RESULTS.md"
  held, lost = (expectations.beats(PANEL, *pair) for pair in (("A", "B"), ("B", "A")))
  tau, stages = (
    dataclasses.replace(CLAIMS[name], panels=(PANEL,), expected=(test,), axes=("rounds",))
    for name, test in (("tau", held), ("stages", lost))
  )
  found = results(tmp_path / "runs", [0.9, 0.8, 0.7], [0.8, 0.7, 0.6])
  results_page.write(page, [stages], [tau], found, {"s": 0.5}, "")
  before = page.read_text()
  results_page.write(page, [tau], [stages], found, {"s": 0.5}, "")
  after = page.read_text()
  kept = re.search(r"^## stages\n.*?\n(?=\n## |\Z)", before, re.M | re.S)[0].strip()
  assert kept in after
  assert after.index("## tau") < after.index("## stages")
  assert "| [tau](#tau) | GHBM, Figure 1 | holds | – | 30 |" in after
  assert "| [stages](#stages) | FedGM, Figure 2 | does not hold at this scale |" in after


def test_the_committed_page_has_the_text_of_the_claims_and_of_the_code():
  """The page was made by long runs; its text follows the code without running them again."""
  page = (ROOT / "experiments" / "RESULTS.md").read_text(encoding="utf-8")
  for claim in CLAIMS.values():
    assert f"> {claim.statement} ({claim.source})" in page, claim.name
    assert f"![{claim.statement}](results/{claim.name}.png)" in page, claim.name
    assert claim.checked in page, claim.name
    assert f"| [{claim.name}](#{claim.name}) | {claim.source} |" in page
  for part in re.split(r"\{[^}]*\}", results_page.INTRODUCTION):
    assert part in page
  assert full_scale.section(list(CLAIMS.values())).strip() in page


def test_a_cause_is_given_for_the_claims_that_hold_in_part_and_for_no_other():
  page = (ROOT / "experiments" / "RESULTS.md").read_text(encoding="utf-8")
  for claim in CLAIMS.values():
    row = next(line for line in page.splitlines() if line.startswith(f"| [{claim.name}]"))
    verdict, cause = (cell.strip() for cell in row.split("|")[3:5])
    assert cause == (claim.cause or "–")
    assert (verdict == "holds") == (not claim.cause), claim.name


def test_quick_panels_are_short_and_have_two_seeds():
  for name in QUICK:
    for panel in CLAIMS[name].panels:
      short = runner.quick(panel).setting
      assert short.rounds <= panel.setting.rounds // 5
      assert short.seeds == panel.setting.seeds[:2]
      assert not panel.setting.needs_data


def test_the_best_run_of_the_grid_is_chosen_and_the_end_of_a_grid_is_reported(tmp_path):
  space = runner.search_space(PANEL.setting, PANEL.arms[0], None)
  runs = runner.tuning_runs(space)
  for run, final in zip(runs, (0.5, 0.6, 0.7, 0.9), strict=True):
    write_run(tmp_path, "fedavg", [0.1, final, final], name=run.name)
  best = runner.best(tmp_path, runs)
  assert best.values == {"client_learning_rate": "0.3"}
  assert runner.edges(space, best.values) == ["client_learning_rate"]


@pytest.mark.parametrize(
  ("arguments", "said"),
  [(["taw"], "did you mean tau"), (["--all", "--jobs=0"], "--jobs must be at least 1")],
)
def test_invalid_arguments_exit_with_one_sentence(arguments, said):
  done = subprocess.run(
    [sys.executable, "experiments/claims.py", *arguments], cwd=ROOT, capture_output=True, text=True
  )
  assert done.returncode == 2
  assert said in done.stderr
  assert "Traceback" not in done.stderr


def test_a_claim_without_anything_to_tune_runs_and_is_archived(tmp_path):
  panel = Panel(
    TrialSetting("plain", "quadratic", "quadratic", ("--clients_per_round=2",), 2, {}, seeds=(1,)),
    (Arm("A", "fedavg"),),
  )
  found = runner.run([panel], tmp_path / "runs", None, 1, tmp_path / "archive")
  again = runner.run([panel], tmp_path / "other", None, 1, tmp_path / "archive")
  assert not (
    tmp_path / "other" / "seeds" / "logs" / "plain.A-seed=1.log"
  ).exists()  # it did not run
  (first,), (second,) = found.of(panel, "A"), again.of(panel, "A")
  assert first.rounds == second.rounds == 2
  assert first.columns["eval/loss"][-1] == second.columns["eval/loss"][-1]
