"""All claims, in the order of the papers."""

from experiments.claim_trials import (
  fedgbo,
  fedglomo,
  fedglomo_tables,
  fedgm,
  ghbm,
  limits,
  newer,
  scaffold,
)

CLAIMS = {
  claim.name: claim
  for paper in (ghbm, fedgbo, fedglomo, fedglomo_tables, fedgm, scaffold, limits, newer)
  for claim in paper.CLAIMS
}
QUICK = ("first_round",)  # what --quick tests: a claim on embedded data
