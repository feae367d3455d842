"""Code that several tasks share: from a data set in memory to a `Task`."""
