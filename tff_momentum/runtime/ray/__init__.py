"""The Ray runtime: clients train in actors on a cluster."""
