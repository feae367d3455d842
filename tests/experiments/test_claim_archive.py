"""The archive of the claims' runs: finished runs are taken from it, changed ones are not."""

import dataclasses
import json

from experiments.claim_trials import archive
from experiments.runs import reader
from experiments.sweeps import outcomes
from experiments.sweeps.search_space import SweepRun

FLAGS = ("--task=digits", "--algo=fedavg", "--total_rounds=2", "--data_dir=/somewhere")
RUN = SweepRun("here.FedAvg-seed=1", "here.FedAvg", "digits", "fedavg", {}, 1, FLAGS)
METRICS = """round,train/loss,eval/accuracy,bytes/total,update_norm,seconds/store,seconds/train
1,2.5,,100,1.5,0.25,0.123456
2,2.25,0.5,200,1.25,0.25,0.5
"""


def write_run(folder, run=RUN, *, finished=True):
  target = folder / run.name
  target.mkdir(parents=True)
  (target / "config.json").write_text(json.dumps({"task": "digits", "algo": "fedavg", "seed": 1}))
  (target / "metrics.csv").write_text(METRICS)
  if finished:
    (target / "summary.json").write_text(json.dumps({"rounds": 2, "diverged": False}))


def test_a_finished_run_is_taken_from_the_archive(tmp_path):
  write_run(tmp_path / "one" / "seeds")
  archive.save(tmp_path / "archive", tmp_path / "one" / "seeds", [RUN])
  assert [path.name for path in (tmp_path / "archive").iterdir()] == ["here.zip"]
  elsewhere = dataclasses.replace(RUN, flags=(*FLAGS[:3], "--data_dir=/elsewhere"))
  archive.restore(tmp_path / "archive", tmp_path / "two" / "seeds", [elsewhere])
  found = reader.read(tmp_path / "two" / "seeds" / RUN.name)
  assert set(found.columns) == {"round", "eval/accuracy", "bytes/total", "seconds/train"}
  assert found.columns["eval/accuracy"][-1] == 0.5
  assert list(found.columns["seconds/train"]) == [0.123, 0.5]
  assert outcomes.outcome(tmp_path / "two" / "seeds" / RUN.name, None, None).settled


def test_runs_with_other_flags_and_in_other_parts_are_missing(tmp_path):
  write_run(tmp_path / "one" / "seeds")
  archive.save(tmp_path / "archive", tmp_path / "one" / "seeds", [RUN])
  changed = dataclasses.replace(RUN, flags=(*FLAGS[:2], "--total_rounds=3"))
  archive.restore(tmp_path / "archive", tmp_path / "two" / "seeds", [changed])
  archive.restore(tmp_path / "archive", tmp_path / "two" / "tuning", [RUN])
  assert not (tmp_path / "two").exists()


def test_unfinished_runs_are_not_archived_and_present_ones_not_replaced(tmp_path):
  write_run(tmp_path / "one" / "seeds", finished=False)
  archive.save(tmp_path / "archive", tmp_path / "one" / "seeds", [RUN])
  assert not (tmp_path / "archive").exists()
  write_run(tmp_path / "two" / "seeds")
  archive.save(tmp_path / "archive", tmp_path / "two" / "seeds", [RUN])
  archive.restore(tmp_path / "archive", tmp_path / "one" / "seeds", [RUN])
  assert not (tmp_path / "one" / "seeds" / RUN.name / "summary.json").exists()


def test_equal_runs_give_equal_files_and_a_new_run_keeps_the_others(tmp_path):
  other = dataclasses.replace(RUN, name="here.FedAvg-seed=2", seed=2)
  for name in ("one", "two"):
    write_run(tmp_path / name)
    archive.save(tmp_path / f"of_{name}", tmp_path / name, [RUN])
  write_run(tmp_path / "one", other)
  first, second = ((tmp_path / f"of_{n}" / "here.zip") for n in ("one", "two"))
  before = first.read_bytes().replace(b"one/", b"two/")
  assert before == second.read_bytes()
  archive.save(tmp_path / "of_one", tmp_path / "one", [other])
  archive.restore(tmp_path / "of_one", tmp_path / "new" / "one", [RUN, other])
  assert len(list((tmp_path / "new" / "one").iterdir())) == 2
