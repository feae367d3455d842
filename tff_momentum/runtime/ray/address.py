"""Whether anybody listens at the address of a Ray cluster; needs neither Ray nor TensorFlow."""

import socket

CONNECT_SECONDS = 5.0


def check_listening(address: str) -> None:
  """Raises ConnectionError if nobody listens at `host:port`: Ray itself would keep trying for minutes.

  Args:
    address: the cluster's address; `"auto"`, `"local"` and names without a port are left to Ray.
  """
  host, colon, port = address.rpartition("://")[2].rpartition(":")
  if not colon:
    return
  try:
    socket.create_connection((host.strip("[]"), int(port)), timeout=CONNECT_SECONDS).close()
  except (OSError, ValueError, OverflowError) as error:
    raise ConnectionError(
      f"Expected a Ray cluster at {address!r}; found none ({error}). Start one with `ray start --head`, or "
      "omit the address to run on this machine only."
    ) from None
