"""What an algorithm should cost beside fedavg: its gradients of an example, fedavg taking one.

SCAFFOLD (option II) and GHBM take no more gradients; they send or keep one more model, a few additions of
weights in a step that costs hundreds of them. MimeLite adds a gradient at the server's model, Mime that and
one more in each step.
"""

_GRADIENTS = {"mimelite": 2.0, "mime": 3.0, "mime_mvr": 3.0}


def factor(competitor: str) -> float:
  """The expected time as a multiple of fedavg's."""
  return _GRADIENTS.get(competitor.partition("/")[2], 1.0)
