"""Downloads from a real HTTP server: whole, broken off, resumed, damaged, or something else altogether."""

import bz2
import contextlib
import hashlib
import http.server
import io
import lzma
import tarfile
import threading

import numpy as np
import pytest

from tasks.data import downloads, sqlite
from tasks.data.folders import DataError
from tests.tasks.test_broken_files import GOOD, write_database

BODY = np.random.default_rng(0).bytes(300_000)


class Server(http.server.ThreadingHTTPServer):
  """Serves `files`; tells in `ranges` what was asked for."""

  def __init__(self, files, *, ranges=True, breaks_after=None, chunked=False):
    super().__init__(("127.0.0.1", 0), Handler)
    self.files, self.with_ranges, self.breaks_after = files, ranges, list(breaks_after or [])
    self.chunked, self.ranges = chunked, []

  @property
  def url(self):
    return f"http://127.0.0.1:{self.server_port}"


class Handler(http.server.BaseHTTPRequestHandler):
  protocol_version = "HTTP/1.1"
  server: Server

  def do_GET(self):
    body, asked = self.server.files.get(self.path.lstrip("/")), self.headers.get("Range")
    self.server.ranges.append(asked)
    if body is None:
      self.send_error(404)
      return
    start = int(asked.removeprefix("bytes=").rstrip("-")) if asked else 0
    if not self.server.with_ranges:
      start = 0
    if asked and start >= len(body):
      self.send_response(416)
      self.send_header("Content-Range", f"bytes */{len(body)}")
      self.send_header("Content-Length", "0")
      self.end_headers()
      return
    self.send_response(206 if start else 200)
    rest = body[start:]
    if self.server.chunked:
      self.send_header("Transfer-Encoding", "chunked")
    else:
      self.send_header("Content-Length", str(len(rest)))
    self.end_headers()
    stop = self.server.breaks_after.pop(0) if self.server.breaks_after else None
    if self.server.chunked:
      rest = b"%x\r\n%s\r\n0\r\n\r\n" % (len(rest), rest)
    self.wfile.write(rest[:stop])
    if stop is not None:
      self.close_connection = True

  def log_message(self, *arguments):
    pass


@contextlib.contextmanager
def serving(files, **options):
  with Server(files, **options) as server:
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
      yield server
    finally:
      server.shutdown()
      thread.join()


def get(server, path):
  downloads.download(f"{server.url}/{path.name}", path, what="the file", wanted=path)


def test_a_download_is_shown_and_gets_its_name_when_it_is_complete(tmp_path, capfd):
  path = tmp_path / "new" / "file"
  with serving({"file": BODY}) as server:
    get(server, path)
    get(server, path)  # it is there
  assert path.read_bytes() == BODY
  assert [p.name for p in path.parent.iterdir()] == ["file"]
  assert server.ranges == [None]
  shown = capfd.readouterr().err
  assert "the file" in shown
  assert "100%" in shown


@pytest.mark.parametrize("chunked", [False, True])
def test_a_connection_that_breaks_is_taken_up_where_it_broke(tmp_path, chunked):
  with serving({"file": BODY}, breaks_after=[100_000, 50_000], chunked=chunked) as server:
    get(server, tmp_path / "file")
  assert (tmp_path / "file").read_bytes() == BODY
  assert len(server.ranges) == 3
  assert server.ranges[0] is None
  assert all(asked.startswith("bytes=") for asked in server.ranges[1:])


def test_what_a_stopped_program_left_is_completed_by_the_next(tmp_path):
  (tmp_path / "file.download").write_bytes(BODY[:123_456])
  with serving({"file": BODY}) as server:
    get(server, tmp_path / "file")
  assert server.ranges == ["bytes=123456-"]
  assert (tmp_path / "file").read_bytes() == BODY


@pytest.mark.parametrize("left", [BODY, BODY + b"of another file"])
def test_a_program_stopped_before_the_renaming_does_not_block_the_next(tmp_path, left):
  (tmp_path / "file.download").write_bytes(left)
  with serving({"file": BODY}) as server:
    get(server, tmp_path / "file")
  assert (tmp_path / "file").read_bytes() == BODY


def test_a_server_without_ranges_starts_over(tmp_path):
  (tmp_path / "file.download").write_bytes(b"x" * 1000)
  with serving({"file": BODY}, ranges=False) as server:
    get(server, tmp_path / "file")
  assert (tmp_path / "file").read_bytes() == BODY


def test_a_server_that_always_breaks_off_ends_in_a_sentence(tmp_path):
  breaks = [70_000] * 9
  with (
    serving({"file": BODY}, ranges=False, breaks_after=breaks) as server,
    pytest.raises(DataError, match=r"received 70,000 of 300,000 bytes; run again to resume"),
  ):
    get(server, tmp_path / "file")
  assert not (tmp_path / "file").exists()
  assert (tmp_path / "file.download").stat().st_size == 70_000


def test_missing_files_and_dead_servers_end_in_a_sentence(tmp_path):
  with serving({}) as server, pytest.raises(DataError, match="the server answered 404"):
    get(server, tmp_path / "file")
  with pytest.raises(DataError, match=r"refused.*--data=synthetic"):
    get(server, tmp_path / "file")


# TFF's files.


@pytest.fixture
def database(tmp_path):
  path = tmp_path / "source.sqlite"
  write_database(path, GOOD)
  return path.read_bytes()


def fetch_database(server, path, monkeypatch):
  monkeypatch.setattr(downloads, "TFF_DATA", server.url)
  downloads.tff_database(path, sqlite.check)


def test_a_database_is_unpacked_checked_and_indexed(tmp_path, database, monkeypatch):
  path = tmp_path / "tff" / "some.sqlite"
  with serving({"some.sqlite.lzma": lzma.compress(database)}, breaks_after=[200]) as server:
    fetch_database(server, path, monkeypatch)
  assert path.read_bytes() == database
  assert [p.name for p in path.parent.iterdir()] == ["some.sqlite"]
  assert list(sqlite.index(path, "train").ids) == ["ann", "bob"]


@pytest.mark.parametrize(
  ("damage", "told"),
  [
    (lambda data: b"<!DOCTYPE html><html>Please log in</html>", "is damaged"),
    (lambda data: lzma.compress(data)[:-100], "is damaged"),
    (lambda data: lzma.compress(b"<html>Please log in</html>"), "is not a SQLite file"),
    (lambda data: lzma.compress(data[:-4096]), "is truncated"),
  ],
  ids=["a web page", "cut archive", "archived web page", "cut database"],
)
def test_what_is_no_database_never_gets_its_name(tmp_path, database, monkeypatch, damage, told):
  path = tmp_path / "tff" / "some.sqlite"
  with (
    serving({"some.sqlite.lzma": damage(database)}) as server,
    pytest.raises(DataError, match=told),
  ):
    fetch_database(server, path, monkeypatch)
  assert not path.exists()


def counts(text):
  stream = io.BytesIO()
  with tarfile.open(fileobj=stream, mode="w") as archive:
    member = tarfile.TarInfo("some.word_count")
    member.size = len(text)
    archive.addfile(member, io.BytesIO(text))
  return bz2.compress(stream.getvalue())


def test_counts_are_unpacked_if_their_checksum_is_right(tmp_path, monkeypatch):
  archive = counts(b"the 10\na 9\n")
  path = tmp_path / "tff" / "some.word_count"
  with serving({"some.word_count.tar.bz2": archive}) as server:
    monkeypatch.setattr(downloads, "TFF_DATA", server.url)
    with pytest.raises(DataError, match="checksum"):
      downloads.tff_counts(path, "0" * 64)
    assert not path.exists()
    path.with_name(path.name + ".tar.bz2").unlink()  # as the sentence says
    downloads.tff_counts(path, hashlib.sha256(archive).hexdigest())
  assert path.read_text() == "the 10\na 9\n"
  assert [p.name for p in path.parent.iterdir()] == ["some.word_count"]
