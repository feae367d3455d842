"""The parts of `experiments/report.py`: reading runs, comparing them, drawing and writing."""
