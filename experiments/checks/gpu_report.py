"""The Markdown of `experiments/gpu_check.py`: tables to paste into an issue or into docs/gpu.md."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

JSON = dict[str, Any]


def markdown(report: Mapping[str, Any]) -> str:
  """Returns the whole report; `report` has a value for each section, or the error that ended it."""
  parts = [f"# GPU check, {report['date']}", "", f"`{report['command']}`", ""]
  sections: list[tuple[str, str, Callable[[Any], list[str]]]] = [
    ("Machine", "machine", _machine),
    ("Compiled kernels", "kernels", _kernels),
    ("Algorithms against the CPU", "algorithms", _algorithms),
    ("Seconds a round", "items", _items),
    ("Where time goes", "items", _where),
    ("Copies", "copies", _copies),
  ]
  for title, key, write in sections:
    found = report[key]
    parts += [f"## {title}", ""]
    if isinstance(found, Mapping) and "failed" in found:
      parts += [f"This section failed: {found['failed']}", ""]
    else:
      parts += [*write(found), ""]
  return "\n".join(parts)


def failures(report: Mapping[str, Any]) -> list[str]:
  """Returns one line for everything that failed."""
  found = []
  for key, section in report.items():
    if isinstance(section, Mapping) and "failed" in section:
      found.append(f"{key}: {section['failed']}")
    if isinstance(section, list):
      bad = [row for row in section if row.get("ok") is False]
      found += [f"{key}: {_name(row)}: {_agreement(row)}" for row in bad]
  return found


def _name(row: JSON) -> str:
  return row.get("algorithm") or f"{row['kernel']} on {row['device']}"


def _machine(found: JSON) -> list[str]:
  gpus = [
    f"{gpu['name']} ({gpu['memory_bytes'] / 2**30:.0f} GB, {gpu['capability'][0]}.{gpu['capability'][1]})"
    for gpu in found["gpus"]
  ]
  rows = {
    "GPUs": ", ".join(gpus) or "none",
    "driver": found["driver"] or "none",
    "CUDA libraries of pip": ", ".join(found["libraries"]) or "none",
    "TensorFlow": f"{found['tensorflow']}, built for CUDA {found['built_for'].get('cuda_version')}",
    "Python, cores": f"{found['python']}, {found['cores']}",
    "devices": ", ".join(found["devices"]),
    "clients in flight on a device": str(found["slots"]),
    "TF32": "on" if found["tf32"] else "off",
  }
  said = [f"- {sentence}" for sentence in found["sentences"]]
  return [*_table(("", ""), rows.items()), "", *said]


def _kernels(found: list[JSON]) -> list[str]:
  rows = [
    (
      r["device"],
      r["kernel"],
      _agreement(r),
      _milliseconds(r.get("seconds")),
      _seconds(r.get("compile_s")),
    )
    for r in found
  ]
  return _table(("device", "kernel", "against the CPU", "ms", "s to compile"), rows)


def _algorithms(found: list[JSON]) -> list[str]:
  bad = [row for row in found if not row["ok"]]
  worst = max((row["difference"] for row in found if "difference" in row), default=0.0)
  lines = [
    f"{len(found) - len(bad)} of {len(found)} algorithms agree with the CPU after one round; the largest "
    f"relative difference is {worst:.1e}."
  ]
  if bad:
    lines += ["", *_table(("algorithm", "result"), [(r["algorithm"], _agreement(r)) for r in bad])]
  return lines


def _items(found: list[JSON]) -> list[str]:
  settings = list(dict.fromkeys(row["setting"] for row in found))
  names = list(dict.fromkeys(row["item"] for row in found))
  by = {(row["item"], row["setting"]): row for row in found}
  rows = [[name, *(_seconds(by[name, s]["seconds"]) for s in settings)] for name in names]
  return _table(("item", *settings), rows)


def _where(found: list[JSON]) -> list[str]:
  def row(r: JSON) -> tuple[str, ...]:
    used = f"{r['utilisation']:.0f} %" if "utilisation" in r else "–"
    memory = f"{r['memory_gb']:.1f} GB" if "memory_gb" in r else "–"
    return (
      r["item"], r["setting"], _seconds(r["seconds"]), _seconds(r["python_s"]), _seconds(r["cpu_s"]),
      _seconds(r["first_s"]), used, memory,
    )  # fmt: skip

  header = (
    "item",
    "setting",
    "round",
    "head's Python",
    "CPU of all threads",
    "first round",
    "GPU busy",
    "memory",
  )
  return _table(header, map(row, found))


def _copies(found: list[JSON]) -> list[str]:
  rows = [(r["device"], f"{r['to_gb_per_s']:.1f}", f"{r['from_gb_per_s']:.1f}") for r in found]
  return _table(("device", "GB/s to it", "GB/s from it"), rows)


def _agreement(row: JSON) -> str:
  if "error" in row:
    return f"failed: {row['error']}"
  return f"{'agrees' if row['ok'] else '**differs**'} ({row['difference']:.1e})"


def _seconds(value: float | None) -> str:
  return "–" if value is None else f"{value:.3f}"


def _milliseconds(value: float | None) -> str:
  return "–" if value is None else f"{1000 * value:.2f}"


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
  lines = [header, ["---"] * len(header), *rows]
  return ["| " + " | ".join(line) + " |" for line in lines]
