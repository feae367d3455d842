"""A user's package: an algorithm, its NumPy version, and copies of it with a bug each."""
