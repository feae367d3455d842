"""Functions from `Algorithm` to `Algorithm`: compressed uploads, asynchronous clients."""
