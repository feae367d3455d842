"""Splits of a centralised data set over clients, in NumPy only.

| function | a client's examples |
|---|---|
| `dirichlet` | follow a class distribution drawn from Dir(α·p) |
| `classes_per_client` | come from at most `classes` classes |
| `sorted_similarity` | are s % IID; the rest are sorted by label |
| `pachinko` | follow a distribution over a two-level tree of labels |
| `iid` | are drawn at random |

Each function returns one array of example numbers per client. No example is given to two clients, and the
same seed gives the same split on every machine. `parse` reads the split that `--partition` names.
"""

from tasks.data.partitions.classes_split import classes_per_client
from tasks.data.partitions.dirichlet_split import dirichlet
from tasks.data.partitions.pachinko_split import pachinko
from tasks.data.partitions.parsing import Partition, parse
from tasks.data.partitions.parts import Parts
from tasks.data.partitions.similarity_split import iid, sorted_similarity

__all__ = [
  "Partition",
  "Parts",
  "classes_per_client",
  "dirichlet",
  "iid",
  "pachinko",
  "parse",
  "sorted_similarity",
]
