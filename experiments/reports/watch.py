"""A live report: the page of a running sweep, served on the loopback interface only.

The page asks every two seconds whether files of the runs have changed, and if so takes the new contents. It
has charts and tables, but no static figures, which take seconds to draw.
"""

import contextlib
import http.server
import sys
import threading
from collections.abc import Sequence
from http import HTTPStatus

from experiments.reports import comparison, contents
from experiments.reports.collect import Collector
from experiments.reports.page import page
from experiments.reports.table_formats import FileNames

HOST = "127.0.0.1"


class LivePage:
  """The page of the runs as they are now; it is built when it is asked for and runs have changed."""

  def __init__(self, paths: Sequence[str]):
    """Takes run folders, or folders that contain them."""
    self._collector = Collector(paths)
    self._lock = threading.Lock()
    self._built = ("", "")

  def version(self) -> str:
    """A text that changes when the runs change."""
    with self._lock:
      return self._collector.version()

  def html(self) -> str:
    """The page."""
    with self._lock:
      version = self._collector.version()
      if self._built[0] != version:
        found = self._collector.collect()
        settings, repeated = comparison.compare(found.finished, found.unfinished)
        composed = contents.compose(
          settings, [*found.problems, *repeated], keep_table=FileNames().table
        )
        self._built = version, page(composed, live=version)
      return self._built[1]


class _Server(http.server.ThreadingHTTPServer):
  daemon_threads = True

  def __init__(self, port: int, live: LivePage):
    self.live = live
    super().__init__((HOST, port), _Handler)


class _Handler(http.server.BaseHTTPRequestHandler):
  server: _Server

  def do_GET(self) -> None:
    """Answers with the page or its version."""
    # Another site's page can make a browser resolve its name to 127.0.0.1; it must not read the runs.
    port = self.server.server_port
    if self.headers.get("Host") not in (f"{HOST}:{port}", f"localhost:{port}"):
      self._answer(
        HTTPStatus.FORBIDDEN, "This page is served to this machine only.\n", "text/plain"
      )
    elif self.path == "/":
      self._answer(HTTPStatus.OK, self.server.live.html(), "text/html")
    elif self.path == "/version":
      self._answer(HTTPStatus.OK, self.server.live.version(), "text/plain")
    else:
      self._answer(HTTPStatus.NOT_FOUND, "There is nothing here.\n", "text/plain")

  def _answer(self, status: HTTPStatus, text: str, kind: str) -> None:
    content = text.encode()
    self.send_response(status)
    self.send_header("Content-Type", f"{kind}; charset=utf-8")
    self.send_header("Content-Length", str(len(content)))
    self.send_header("Cache-Control", "no-store")
    self.send_header("X-Content-Type-Options", "nosniff")
    self.end_headers()
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # the reader has left
      self.wfile.write(content)

  def log_message(self, format: str, *arguments: object) -> None:
    """Says nothing: a line for every request would hide the address."""


def serve(paths: Sequence[str], port: int) -> int:
  """Serves the live page until Ctrl-C.

  Args:
    paths: run folders, or folders that contain them.
    port: the port; 0 for any free one.

  Returns:
    The exit code: 0 after Ctrl-C, 2 if the port cannot be used.
  """
  try:
    server = _Server(port, LivePage(paths))
  except OSError as error:
    print(f"report.py: --port must be a free port; {port}: {error.strerror}.", file=sys.stderr)
    return 2
  with server:
    print(f"Live report: http://{HOST}:{server.server_port}/ (Ctrl-C ends it)", flush=True)
    try:
      server.serve_forever()
    except KeyboardInterrupt:
      print()
  return 0
