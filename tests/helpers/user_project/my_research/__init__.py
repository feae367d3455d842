"""A user's package: an algorithm and a task."""
