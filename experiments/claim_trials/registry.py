"""All claims, in the order of the papers."""

from experiments.claim_trials import (
  fedgbo,
  fedglomo,
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
QUICK = ("cyclic",)  # what --quick tests: a claim on embedded data
