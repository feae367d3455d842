"""A run's folder: its writer, its reader, and the definition of its final value."""
