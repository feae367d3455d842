"""Parts of `experiments/benchmark.py`: work items, models, competitors, and the processes they run in."""
