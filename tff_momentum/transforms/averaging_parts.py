"""x and Δ in the messages, states and uploads of algorithms whose server steps x ← x − η E[Δ]."""

from typing import Any

from tff_momentum.algorithm import Algorithm, Averaging


def require(transform: str, algorithm: Algorithm) -> Averaging:
  """Where the algorithm keeps x and Δ.

  Raises:
    ValueError: its server steps in another way, or clients finish late, so that the transform does not fit.
  """
  if algorithm.max_staleness:
    raise ValueError(
      f"{transform} needs a synchronous algorithm; {algorithm.name} is asynchronous."
    )
  if algorithm.averaging is None or len(algorithm.exchanges) != 1:
    raise ValueError(
      f"{transform} needs an algorithm whose server steps x ← x − η E[Δ], such as fedavg, fedprox, fedsam or "
      f"scaffold; the server of {algorithm.name} steps in another way."
    )
  return algorithm.averaging


def part(structure: Any, field: str | None) -> Any:
  """The field of a named tuple; the whole structure for None."""
  return structure if field is None else getattr(structure, field)


def with_part(structure: Any, field: str | None, value: Any) -> Any:
  """The structure with another value in the field; the value itself for None."""
  return value if field is None else structure._replace(**{field: value})
