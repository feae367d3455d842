"""Starts presets one after the other in one process, since importing TensorFlow takes longer than most.

    python tests/preset_starts.py FOLDER NAME ...

Each is what `run.py --preset=NAME --scale=0.01 --data=synthetic --total_rounds=1` does.
"""

import os
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from absl import flags

from experiments import preset_files, settings
from experiments.sweeping import signatures

# ViT-B/16 on the 130 images of a landmark photographer, five times over, takes an hour on two cores.
TOO_SLOW = {("gldv2", "vit_b16"): ["--max_examples_per_client=2"]}


def arguments(name: str, folder: str) -> list[str]:
  """The command line of a start; tasks that carry their data along have no choice of it."""
  preset = dict(flag.removeprefix("--").partition("=")[::2] for flag in preset_files.read(name))
  data = ["--data=synthetic"] * ("data" in (signatures.of_task(preset["task"]) or {}))
  more = TOO_SLOW.get((preset["task"], preset.get("model", "")), [])
  return ["run.py", f"--preset={name}", "--scale=0.01", "--total_rounds=1", *data, *more,
          f"--root_output_dir={folder}",
          f"--experiment_name={name.replace('/', '.')}", "--quiet"]  # fmt: skip


def main(folder: str, names: list[str]) -> None:
  """Starts them; a line for each that ended well."""
  settings.define_flags()
  from experiments import experiment

  for name in names:
    started = time.monotonic()
    for flag in flags.FLAGS:
      flags.FLAGS[flag].unparse()
    settings.parse(preset_files.expand(arguments(name, folder)))
    assert experiment.run(flags.FLAGS) == 0
    print(f"started {name} in {time.monotonic() - started:.1f} s", flush=True)


if __name__ == "__main__":
  main(sys.argv[1], sys.argv[2:])
