"""The parts of `experiments/claims.py`: the papers' claims, their experiments, the results page."""
