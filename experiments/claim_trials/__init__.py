"""What `experiments/claims.py` is made of: the papers' claims, how they are tried, and what came of them."""
