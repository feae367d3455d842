"""Whether a Ray cluster may be at an address; needs neither Ray nor TensorFlow."""

import os
import socket

CONNECT_SECONDS = 5.0
# How a client of HTTP/2, which Ray's servers speak, opens a connection: fixed bytes and an empty frame of
# settings. A server answers with settings of its own; the fourth byte of a frame is its kind.
_HELLO = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\x00\x00\x00\x04\x00\x00\x00\x00\x00"
_FRAME_BYTES, _KIND, _SETTINGS = 9, 3, 4


def check_listening(address: str) -> None:
  """Raises ConnectionError if no server that could be Ray's answers at `host:port`.

  Ray itself would keep trying for minutes, also where some other program listens.

  Args:
    address: the cluster's address; `"auto"`, `"local"` and names without a port are left to Ray.
  """
  host, colon, port = address.rpartition("://")[2].rpartition(":")
  if not colon:
    return
  try:
    target = (host.strip("[]"), int(port))
    with socket.create_connection(target, timeout=CONNECT_SECONDS) as connection:
      if os.environ.get("RAY_USE_TLS", "0") in ("0", "false") and not _speaks_http2(connection):
        raise OSError("another program listens there")
  except (OSError, ValueError, OverflowError) as error:
    raise ConnectionError(
      f"Expected a Ray cluster at {address!r}; found none ({error}). Start one with `ray start --head`, or "
      "omit the address to run on this machine only."
    ) from None


def _speaks_http2(connection: socket.socket) -> bool:
  connection.sendall(_HELLO)
  answer = b""
  try:
    while len(answer) < _FRAME_BYTES and (more := connection.recv(_FRAME_BYTES)):
      answer += more
  except (TimeoutError, ConnectionResetError):
    return False
  return len(answer) >= _FRAME_BYTES and answer[_KIND] == _SETTINGS
