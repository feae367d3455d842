"""Builds and trains what a run configuration describes."""
