"""The parts of `experiments/benchmark.py`: work items, models, competitors, and their worker processes."""
