"""Simulated training: who takes part, what clients remember, the round loop, evaluation."""
