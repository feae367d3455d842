"""Functions from `Algorithm` to `Algorithm`: compression, asynchronous clients, FedExP, FedInit."""
