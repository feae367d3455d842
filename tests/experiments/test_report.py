"""The report: its numbers for hand-made runs, and its messages about unusable runs."""

import csv
import json
import math
import re

import numpy as np
import pytest

from experiments import report
from experiments.reports import (
  algorithm_names,
  chart_data,
  heatmaps,
  measures,
  palette,
  result_tables,
  table_formats,
  trends,
)
from experiments.runs import final_value, reader
from experiments.runs.metric import Metric
from tests.helpers.report_runs import MODEL, compared, write_run
from tff_momentum.registry import ALGORITHMS


def cells(table):
  return {row[0].text: row[1:] for row in table.rows}


def test_final_value_is_the_mean_over_the_last_rounds_and_seeds(tmp_path):
  # Four rounds: the second half, rounds 3 and 4, counts. Seeds: 0.5 and 0.7, so 60 ± √0.02·100 = 14.1.
  write_run(tmp_path, "fedavg", [0.0, 0.0, 0.4, 0.6], seed=1)
  write_run(tmp_path, "fedavg", [0.9, 0.9, 0.6, 0.8], seed=2)
  write_run(tmp_path, "ghbm", [0.0, 0.0, 0.9, 0.9])
  write_run(tmp_path, "scaffold", [0.0, 0.0, 0.1, 0.1])
  write_run(tmp_path, "mime", [0.9, 0.9, 0.9, math.nan])
  (settings, problems) = compared(tmp_path)
  table = result_tables.final_table(settings)
  assert problems == []
  found = {name: (row[0].text, row[0].place) for name, row in cells(table).items()}
  assert found == {
    "FedAvg": ("60.0 ± 14.1", 2),
    "Mime": ("×", 0),
    "GHBM": ("90.0", 1),
    "SCAFFOLD": ("10.0", 0),
  }
  assert "| **90.0** |" in table_formats.to_markdown(table)
  assert "<u>60.0 ± 14.1</u>" in table_formats.to_html(table)
  assert r"\underline{60.0 $\pm$ 14.1}" in table_formats.to_latex(table)
  assert r"Mime & $\times$ \\" in table_formats.to_latex(table)


@pytest.mark.parametrize(("rounds", "last"), [(1, 1), (60, 30), (199, 99), (200, 100), (5000, 100)])
def test_long_runs_are_averaged_over_a_hundred_rounds_and_short_ones_over_their_half(rounds, last):
  assert final_value.window(rounds) == last


def test_unevaluated_rounds_do_not_count(tmp_path):
  folder = write_run(tmp_path, "fedavg", [0.1, None, None, 0.8, None, None])
  assert measures.final(reader.read(folder), "eval/accuracy") == pytest.approx(0.8)


def test_cost_to_fedavgs_final_value_charges_fedavg_to_its_own_level(tmp_path):
  # FedAvg: final (0.6 + 0.6)/2 = 0.6, which it reaches in round 3: s = 3/4 of 16 kB and 8 s, not all of it.
  write_run(tmp_path, "fedavg", [0.1, 0.3, 0.6, 0.6])
  # In round 2: s = 1/2 of 24 kB and 8 s, so 12 kB against 12 kB.
  write_run(tmp_path, "ghbm", [0.1, 0.65, 0.7, 0.7], down=2 * MODEL)
  # In round 4: all of 32 kB and 8 s.
  write_run(tmp_path, "mime", [0.1, 0.2, 0.3, 0.6], down=2 * MODEL, up=2 * MODEL)
  write_run(tmp_path, "scaffold", [0.1, 0.2, 0.3, 0.4])  # never
  write_run(tmp_path, "fedcm", [0.9, 0.9, 0.9, math.nan])  # was there, then diverged
  (setting,), _ = compared(tmp_path)
  table = result_tables.cost_table(setting)
  assert table.header == ["Method", "Rounds", "Bytes", "Training time"]
  shown = {name: [f"{e.text} {e.arrow}".strip() for e in row] for name, row in cells(table).items()}
  assert shown == {
    "FedAvg": ["3", "12.0 kB", "6.0 s"],
    "GHBM": ["2 ↓ 33.3%", "12.0 kB = 0.0%", "4.0 s ↓ 33.3%"],
    "Mime": ["4 ↑ 33.3%", "32.0 kB ↑ 166.7%", "8.0 s ↑ 33.3%"],
    "SCAFFOLD": ["not reached", "–", "–"],
    "FedCM": ["not reached", "–", "–"],
  }
  assert r"2 $\downarrow$ 33.3\%" in table_formats.to_latex(table)


def test_a_constant_fedavg_is_charged_one_round(tmp_path):
  write_run(tmp_path, "fedavg", [0.5] * 60)
  write_run(tmp_path, "ghbm", [0.4] * 60)
  (setting,), _ = compared(tmp_path)
  shown = cells(result_tables.cost_table(setting))
  assert shown["FedAvg"][0].text == "1"
  assert (shown["GHBM"][0].text, shown["GHBM"][0].arrow) == ("not reached", "")


def test_every_table_with_a_final_value_says_what_final_is(tmp_path):
  for rate in (0.1, 0.2):
    for algo in ("fedavg", "ghbm"):
      write_run(tmp_path / "runs", algo, [rate] * 4, hyperparameters={"client_learning_rate": rate})
  assert report.main([str(tmp_path / "runs"), f"--output={tmp_path / 'out'}"]) == 0
  tables = {path.stem: path.read_text() for path in (tmp_path / "out" / "tables").glob("*.md")}
  about_final = {name for name, text in tables.items() if "final" in text.lower()}
  assert about_final == {"final", "digits_cost", "digits_peak", "digits_cells"}
  for name in about_final:
    assert final_value.DESCRIPTION in tables[name], name


def test_csv_has_numbers_without_units_and_no_formulas(tmp_path):
  write_run(tmp_path / "runs", "fedavg", [0.1, 0.3, 0.5, 0.7], seed=1)
  write_run(tmp_path / "runs", "fedavg", [0.1, 0.3, 0.7, 0.9], seed=2)
  write_run(tmp_path / "runs", "=cmd()", [0.8] * 4)
  assert report.main([str(tmp_path / "runs"), f"--output={tmp_path / 'out'}"]) == 0
  tables = tmp_path / "out" / "tables"
  assert {p.stem for p in tables.glob("*.csv")} == {p.stem for p in tables.glob("*.md")}
  final = list(csv.DictReader((tables / "final.csv").open()))
  assert [row["Method"] for row in final] == ["FedAvg", "'=cmd()"]
  mean, std = "digits; accuracy (%)", "digits; accuracy (%), standard deviation"
  assert float(final[0][mean]) == pytest.approx(70)
  assert float(final[0][std]) == pytest.approx(math.sqrt(2) * 10)
  assert (float(final[1][mean]), final[1][std]) == (pytest.approx(80), "")
  cost = list(csv.DictReader((tables / "digits_cost.csv").open()))
  assert (cost[0]["Bytes"], cost[1]["Bytes"]) == ("16000.0", "4000.0")
  assert cost[1]["Bytes, change in %"] == "-75.0"


def test_flops_are_a_column_where_they_were_counted(tmp_path):
  flops = {"diagnostics/flops": [5e11, 5e11]}  # of one of the two clients, in each round
  write_run(tmp_path, "fedavg", [0.1, 0.5], columns=flops)
  write_run(tmp_path, "ghbm", [0.5, 0.5], columns=flops)
  (setting,), _ = compared(tmp_path)
  table = result_tables.cost_table(setting)
  assert table.header[3] == "FLOPs"
  assert cells(table)["FedAvg"][2] == table_formats.TableCell("2.00e12")
  assert cells(table)["GHBM"][2] == table_formats.TableCell("1.00e12", change=-50.0)
  assert "FLOPs to best" in result_tables.peak_table(setting).header


def test_best_value_on_the_way(tmp_path):
  write_run(tmp_path, "fedavg", [0.1, 0.6, 0.5, 0.4])
  write_run(tmp_path, "ghbm", [0.7, 0.8, 0.9, 0.9], down=2 * MODEL)
  (setting,), _ = compared(tmp_path)
  shown = {
    name: [e.text for e in row] for name, row in cells(result_tables.peak_table(setting)).items()
  }
  assert shown["FedAvg"] == ["60.0", "2", "4.0 kB", "–", "–"]
  assert shown["GHBM"] == ["90.0", "3", "6.0 kB", "1", "2.0 kB"]


def test_regression_is_judged_by_its_loss(tmp_path):
  write_run(tmp_path, "fedavg", [0.2] * 4, metric="r2")
  write_run(tmp_path, "ghbm", [0.1] * 4, metric="r2", columns={"eval/loss": [9.0, 0.2, 0.2, 0.2]})
  (setting,), _ = compared(tmp_path)
  assert setting.metric == Metric("eval/loss", False)
  assert cells(result_tables.final_table([setting]))["GHBM"][0] == table_formats.TableCell("0.2", 1)
  # FedAvg's final loss is (1/3 + 1/4)/2 = 0.29, reached in round 4; ghbm is below it in round 2.
  assert cells(result_tables.cost_table(setting))["GHBM"][0] == table_formats.TableCell(
    "2", change=-50.0
  )


def test_every_algorithm_is_spelled_as_in_its_paper():
  assert set(ALGORITHMS) <= set(algorithm_names.SPELLED)
  assert all(
    spelled.isascii() and spelled[0].isupper() for spelled in algorithm_names.SPELLED.values()
  )
  assert algorithm_names.spelled("something_new") == "something_new"


def test_bytes_per_client_against_fedavg(tmp_path):
  write_run(tmp_path, "fedavg", [0.1] * 3, clients=5)
  write_run(tmp_path, "ghbm", [0.1] * 3, clients=5, down=2 * MODEL)
  (setting,), _ = compared(tmp_path)
  row = cells(result_tables.communication_table(setting))["GHBM"]
  assert [cell.text for cell in row] == ["2.0 kB", "1.0 kB", "1.5×"]


def test_the_best_tuned_configuration_stands_for_a_method_and_all_are_on_the_heat_map(tmp_path):
  for rate, beta, value in [
    (0.1, 0.9, 0.5),
    (0.1, 0.99, 0.8),
    (0.01, 0.9, math.nan),
    (0.01, 0.99, 0.3),
  ]:
    write_run(
      tmp_path, "ghbm", [value] * 2, hyperparameters={"client_learning_rate": rate, "beta": beta}
    )
  (setting,), problems = compared(tmp_path)
  assert problems == []
  (method,) = setting.methods
  assert method.best.tuned == {"client_learning_rate": 0.1, "beta": 0.99}
  (figure,) = heatmaps.heat_maps([setting])
  axes = figure.drawn.axes[0]
  assert axes.images[0].get_array().filled(-1).tolist() == [[-1, 30], [50, 80]]
  assert [text.get_text() for text in axes.texts] == ["×", "30.0", "50.0", "80.0"]
  rows = [[e.text for e in row] for row in result_tables.configurations_table(setting).rows]
  assert rows[0] == ["GHBM", "client_learning_rate=0.1, beta=0.99", "1", "80.0"]


def test_settings_are_columns_and_points_of_a_trend(tmp_path):
  for alpha in (1.0, 0.1):
    write_run(tmp_path, "fedavg", [alpha / 2] * 2, details={"alpha": alpha})
  settings, _ = compared(tmp_path)
  assert [s.label for s in settings] == ["digits, alpha=0.1", "digits, alpha=1"]
  assert [e.text for e in cells(result_tables.final_table(settings))["FedAvg"]] == ["5.0", "50.0"]
  assert list(heatmaps.heat_maps(settings)) == []
  (figure,) = trends.trends(settings)
  axes = figure.drawn.axes[0]
  assert axes.get_xlabel() == "alpha"
  assert [text.get_text() for text in axes.get_xticklabels()] == ["0.1", "1.0"]
  np.testing.assert_allclose(axes.lines[0].get_ydata(), [5, 50])


def test_a_heat_map_may_span_settings(tmp_path):
  for alpha in (0.1, 1.0):
    for beta in (0.5, 0.9):
      write_run(
        tmp_path, "ghbm", [alpha * beta], details={"alpha": alpha}, hyperparameters={"beta": beta}
      )
  settings, _ = compared(tmp_path)
  (figure,) = heatmaps.heat_maps(settings)
  axes = figure.drawn.axes[0]
  assert (axes.get_ylabel(), axes.get_xlabel()) == ("alpha", "beta")
  np.testing.assert_allclose(axes.images[0].get_array(), [[5, 9], [50, 90]])


def test_words_make_another_method_and_numbers_another_configuration(tmp_path):
  for optimizer in ("sgdm", "adam"):
    write_run(tmp_path, "mime", [0.5], hyperparameters={"optimizer": optimizer})
  write_run(tmp_path, "fedavg", [0.5])
  write_run(tmp_path, "fedavg", [0.5], compression="qsgd:4")
  write_run(
    tmp_path, "scaffold", [0.5], hyperparameters={"client_learning_rate": "step(0.1, every=5)"}
  )
  write_run(tmp_path, "scaffold", [0.5])
  (setting,), _ = compared(tmp_path)
  assert {method.label: len(method.configurations) for method in setting.methods} == {
    "FedAvg (compression=default)": 1, "FedAvg (compression=qsgd:4)": 1,
    "Mime (optimizer=sgdm)": 1, "Mime (optimizer=adam)": 1, "SCAFFOLD": 2,
  }  # fmt: skip


def test_constants_of_a_random_problem_do_not_part_its_seeds(tmp_path):
  for seed in (1, 2):
    write_run(tmp_path, "fedavg", [0.5], seed=seed, details={"heterogeneity": seed / 3})
  (setting,), _ = compared(tmp_path)
  assert len(setting.methods[0].best.runs) == 2


def test_the_same_seed_twice_is_no_second_seed(tmp_path):
  write_run(tmp_path, "fedavg", [0.5], name="a")
  write_run(tmp_path, "fedavg", [0.5], name="b")
  (setting,), problems = compared(tmp_path)
  assert len(setting.methods[0].best.runs) == 1
  assert len(problems) == 1
  assert "the same run with the same seed" in problems[0]


def test_broken_runs_cost_a_sentence_each(tmp_path, capsys):
  write_run(tmp_path, "fedavg", [0.5], name="good")
  write_run(tmp_path, "fedavg", [0.5], name="unfinished", seed=2, finished=False)
  for name, file, text in [
    ("cut", "config.json", '{"task": "digits", "al'),
    ("list", "config.json", "[1]"),
    ("seedless", "config.json", '{"task": "digits", "algo": "fedavg"}'),
    ("empty", "metrics.csv", ""),
    ("header", "metrics.csv", "round,eval/accuracy\n"),
    ("words", "metrics.csv", "round,eval/accuracy\n1,high\n"),
    ("ragged", "metrics.csv", "round,eval/accuracy\n1\n"),
    ("backwards", "metrics.csv", "round,eval/accuracy\n2,0.1\n1,0.1\n"),
    ("binary", "metrics.csv", "\udcff\udcfe"),
    ("blind", "metrics.csv", "round,train/loss\n1,0.1\n"),
  ]:
    folder = write_run(tmp_path, "scaffold", [0.5], name=name, seed=3, task=f"task_{name}")
    (folder / file).write_bytes(text.encode(errors="surrogateescape"))
  assert (
    report.main([str(tmp_path), str(tmp_path / "nothing"), f"--output={tmp_path / 'out'}"]) == 0
  )
  sentences = capsys.readouterr().err.strip().splitlines()
  assert len(sentences) == 12
  assert all(re.fullmatch(r"report\.py: \S+: .*\.", sentence) for sentence in sentences)
  page = (tmp_path / "out" / "index.html").read_text()
  assert all(f"{tmp_path}/{name}" in page for name in ("unfinished", "words", "blind"))


def test_nothing_usable_is_exit_code_2_and_writes_nothing(tmp_path, capsys):
  write_run(tmp_path, "fedavg", [0.5], finished=False)
  assert report.main([str(tmp_path), f"--output={tmp_path / 'out'}"]) == 2
  assert "at least one finished run" in capsys.readouterr().err
  assert not (tmp_path / "out").exists()


def test_an_output_that_cannot_be_written_is_one_sentence(tmp_path, capsys):
  write_run(tmp_path, "fedavg", [0.5])
  (tmp_path / "file").write_text("")
  assert report.main([str(tmp_path), f"--output={tmp_path / 'file'}"]) == 2
  assert "--output must be a writable folder" in capsys.readouterr().err


def test_runs_that_a_sweep_pruned_are_left_out(tmp_path):
  write_run(tmp_path, "fedavg", [0.5, 0.5], name="long")
  write_run(tmp_path, "fedavg", [0.5], name="short", hyperparameters={"beta": 0.5})
  runs = [{"name": "long", "state": "done"}, {"name": "short", "state": "pruned"}]
  (tmp_path / "sweep.json").write_text(json.dumps({"cells": runs}))
  (setting,), problems = compared(tmp_path)
  assert len(setting.methods[0].configurations) == 1
  assert "pruned" in problems[0]


def test_every_algorithm_has_its_own_look():
  looks = {name: palette.style(name) for name in ALGORITHMS}
  assert len({str(look) for look in looks.values()}) == len(looks)
  first = [looks.get(name, palette.style(name)) for name in palette.FIRST]
  assert len({look.colour for look in first}) == len(first)


def test_the_mean_curve_stops_where_a_seed_diverges(tmp_path):
  first = reader.read(write_run(tmp_path, "fedavg", [0.1, 0.2, math.inf, 0.4]))
  second = reader.read(write_run(tmp_path, "fedavg", [0.3, 0.4, 0.5, 0.6], seed=2))
  rounds, mean, std = measures.curve([first, second], "eval/accuracy")
  np.testing.assert_array_equal(rounds, [1, 2])
  np.testing.assert_allclose(mean, [0.2, 0.3])
  np.testing.assert_allclose(std, np.sqrt(0.02))


def test_a_smoothed_curve_is_a_mean_of_neighbours():
  line = measures.Curve(np.arange(1, 6), np.array([0.0, 3, 0, 3, 0]), np.ones(5))
  found = measures.smoothed(line, 3)
  np.testing.assert_allclose(found.mean, [1.5, 1, 2, 1, 1.5])
  np.testing.assert_allclose(found.std, 1)


def test_what_never_happened_has_no_figure(tmp_path):
  for algo, dropped in (("fedavg", [0, 0]), ("ghbm", [0, 1])):
    counted = {"clients/non_finite": [0, 0], "clients/dropped": dropped}
    write_run(tmp_path, algo, [0.5, 0.6], columns=counted)
  (setting,), _ = compared(tmp_path)
  assert chart_data.diagnostics(setting) == ["clients/dropped"]
