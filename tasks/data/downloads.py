"""Downloads: with a progress bar, into a temporary file, resumed when broken off, checked, then renamed."""

import bz2
import hashlib
import http.client
import lzma
import os
import pathlib
import shutil
import socket
import tarfile
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable

import tqdm

from tasks.data.folders import DataError, missing

TFF_DATA = "https://storage.googleapis.com/tff-datasets-public"
_CHUNK = 2**20
_SECONDS = 20


def offline() -> str:
  """Why there is no network; an empty text if there is one."""
  try:
    socket.create_connection((urllib.parse.urlparse(TFF_DATA).hostname, 443), timeout=5).close()
  except OSError as error:
    return f"there is no network: {error}"
  return ""


def tff_database(path: pathlib.Path, check: Callable[[pathlib.Path], None]) -> None:
  """Fetches one of TFF's SQLite files unless it is there; checks it before it gets its name."""
  if path.exists():
    return
  packed = path.with_name(path.name + ".lzma")
  download(f"{TFF_DATA}/{packed.name}", packed, what=path.name, wanted=path)
  part = path.with_name(path.name + ".part")
  try:
    with lzma.open(packed) as source, open(part, "wb") as target:
      shutil.copyfileobj(source, target, _CHUNK)
  except (lzma.LZMAError, EOFError) as error:
    raise DataError(f"{packed} is damaged ({error}); delete it, and fetch it again.") from error
  check(part)
  part.replace(path)
  packed.unlink()


def tff_counts(path: pathlib.Path, sha256: str) -> None:
  """Fetches one of TFF's count files unless it is there; its archive must have this checksum."""
  if path.exists():
    return
  packed = path.with_name(path.name + ".tar.bz2")
  download(f"{TFF_DATA}/{packed.name}", packed, what=path.name, wanted=path)
  found = hashlib.sha256(packed.read_bytes()).hexdigest()
  if found != sha256:
    raise DataError(
      f"{packed} has the checksum {found[:12]}…, expected {sha256[:12]}…; delete it, and fetch it again."
    )
  part = path.with_name(path.name + ".part")
  with bz2.open(packed) as stream, tarfile.open(fileobj=stream) as archive:
    member = archive.extractfile(path.name)
    if member is None:
      raise DataError(f"{packed} holds no {path.name}; delete it, and fetch it again.")
    with open(part, "wb") as target:
      shutil.copyfileobj(member, target)
  part.replace(path)
  packed.unlink()


def download(url: str, path: pathlib.Path, *, what: str, wanted: pathlib.Path) -> None:
  """Downloads to `path`, by way of `path`.download.

  A download that breaks off is taken up again for as long as something comes; the next command goes on from
  what it left.
  """
  if path.exists():
    return
  path.parent.mkdir(parents=True, exist_ok=True)
  part = path.with_name(path.name + ".download")
  while True:
    before = _size(part)
    try:
      total = _download_rest(url, part, what)
      if total is None or _size(part) == total:
        break
      reason = f"{_size(part):,} of {total:,} bytes came; run again to go on"
    except urllib.error.HTTPError as error:
      raise missing(what, wanted, f"the server answered {error.code}") from error
    except (OSError, http.client.HTTPException) as error:
      reason = str(getattr(error, "reason", error))
    if _size(part) <= before:
      raise missing(what, wanted, reason)
  os.replace(part, path)


def _download_rest(url: str, part: pathlib.Path, what: str) -> int | None:
  """Appends to a file what it lacks; returns how long it should be, if the server says so."""
  have = _size(part)
  request = urllib.request.Request(url, headers={"Range": f"bytes={have}-"} if have else {})
  try:
    response = urllib.request.urlopen(request, timeout=_SECONDS)
  except urllib.error.HTTPError as error:
    if have and error.code == 416:  # nothing lies beyond: it was complete, or is of something else
      if error.headers.get("Content-Range") == f"bytes */{have}":
        return have
      part.unlink()
      return _download_rest(url, part, what)
    raise
  with response:
    if have and response.status != 206:  # the server starts over, and so do we
      have = 0
    length = response.headers.get("Content-Length")
    total = have + int(length) if length else None
    with (
      open(part, "ab" if have else "wb") as file,
      tqdm.tqdm(total=total, initial=have, unit="B", unit_scale=True, desc=what) as bar,
    ):
      while chunk := response.read1(_CHUNK):  # what there is: a break loses nothing
        file.write(chunk)
        bar.update(len(chunk))
  return total


def _size(path: pathlib.Path) -> int:
  return path.stat().st_size if path.exists() else 0
