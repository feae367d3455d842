"""All claims, in the order of the papers."""

from experiments.claim_trials import (
  fedgbo,
  fedglomo,
  fedglomo_tables,
  fedgm,
  ghbm,
  ghbm_cifar,
  limits,
  newer,
  scaffold,
)

CLAIMS = {
  claim.name: claim
  for paper in (ghbm, ghbm_cifar, fedgbo, fedglomo, fedgm, scaffold, limits, newer)
  for claim in paper.CLAIMS
}
# Claims whose runs are not all in the archive. Their names work on the command line; --all and RESULTS.md
# leave them out.
UNFINISHED = {claim.name: claim for claim in fedglomo_tables.CLAIMS}
KNOWN = {**CLAIMS, **UNFINISHED}
QUICK = ("cyclic",)  # what --quick tests: a claim on embedded data
