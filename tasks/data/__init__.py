"""Reading, downloading, splitting, generating and batching data."""
