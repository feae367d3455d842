"""A wrong address of a Ray cluster is reported within seconds."""

import contextlib
import http.server
import socket
import threading
from concurrent import futures

import grpc
import pytest

from tff_momentum.runtime.ray import address


@contextlib.contextmanager
def listening(answer: bytes | None):
  """A server that sends `answer` to whoever connects, or nothing and keeps the connection open."""
  with socket.create_server(("127.0.0.1", 0)) as server:
    opened = []

    def serve():
      with contextlib.suppress(OSError):
        connection, _ = server.accept()
        opened.append(connection)
        if answer is not None:
          connection.sendall(answer)
          connection.close()

    thread = threading.Thread(target=serve)
    thread.start()
    yield f"127.0.0.1:{server.getsockname()[1]}"
    thread.join()
    for connection in opened:
      connection.close()


@pytest.mark.parametrize(
  "answer", [None, b"", b"HTTP/1.1 400 Bad Request\r\n\r\n", b"SSH-2.0-OpenSSH_9\r\n"]
)
def test_another_program_is_not_a_cluster(monkeypatch, answer):
  monkeypatch.setattr(address, "CONNECT_SECONDS", 0.5)
  with (
    listening(answer) as where,
    pytest.raises(ConnectionError, match=r"Expected a Ray cluster at .*another program listens"),
  ):
    address.check_listening(where)


def test_a_web_server_is_not_a_cluster():
  with http.server.ThreadingHTTPServer(
    ("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler
  ) as server:
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with pytest.raises(ConnectionError, match="another program listens"):
      address.check_listening(f"127.0.0.1:{server.server_port}")
    server.shutdown()


def test_a_server_like_rays_may_be_a_cluster():
  server = grpc.server(futures.ThreadPoolExecutor(1))
  port = server.add_insecure_port("127.0.0.1:0")
  server.start()
  address.check_listening(f"127.0.0.1:{port}")
  server.stop(None)


def test_nobody_listens():
  with socket.create_server(("127.0.0.1", 0)) as server:
    port = server.getsockname()[1]
  with pytest.raises(ConnectionError, match="Connection refused"):
    address.check_listening(f"127.0.0.1:{port}")
