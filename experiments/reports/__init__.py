"""The parts of `experiments/report.py`: comparison of runs, figures, tables and the page."""
