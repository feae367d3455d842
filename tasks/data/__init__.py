"""Reading, downloading, splitting and batching of data."""
