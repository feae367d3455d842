"""Command-line programs: run one experiment, sweep over many, report, benchmark, look after data."""
