"""Downloads with a progress bar that resume after an interruption.

A file is downloaded under a temporary name, checked, and then renamed, so a file with its final name is
complete.
"""

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
_TIMEOUT_SECONDS = 20


def offline() -> str:
  """Returns why there is no network, or an empty string if there is one."""
  try:
    socket.create_connection((urllib.parse.urlparse(TFF_DATA).hostname, 443), timeout=5).close()
  except OSError as error:
    return f"there is no network: {error}"
  return ""


def tff_database(path: pathlib.Path, check: Callable[[pathlib.Path], None]) -> None:
  """Downloads one of TFF's SQLite files unless it exists.

  Args:
    path: the file.
    check: raises `DataError` for a damaged file; called before the file gets its name.

  Raises:
    DataError: the file cannot be downloaded, or is damaged.
  """
  if path.exists():
    return
  packed = path.with_name(path.name + ".lzma")
  download(f"{TFF_DATA}/{packed.name}", packed, what=path.name, wanted=path)
  part = path.with_name(path.name + ".part")
  try:
    with lzma.open(packed) as source, open(part, "wb") as target:
      shutil.copyfileobj(source, target, _CHUNK)
  except (lzma.LZMAError, EOFError) as error:
    raise DataError(
      f"{packed} is damaged ({error}). Delete the file and fetch it again."
    ) from error
  check(part)
  part.replace(path)
  packed.unlink()


def tff_counts(path: pathlib.Path, sha256: str) -> None:
  """Downloads one of TFF's count files unless it exists.

  Args:
    path: the file.
    sha256: the checksum of its archive.

  Raises:
    DataError: the file cannot be downloaded, or is damaged.
  """
  if path.exists():
    return
  packed = path.with_name(path.name + ".tar.bz2")
  download(f"{TFF_DATA}/{packed.name}", packed, what=path.name, wanted=path)
  found = hashlib.sha256(packed.read_bytes()).hexdigest()
  if found != sha256:
    raise DataError(
      f"{packed}: expected the checksum {sha256[:12]}…; found {found[:12]}…. "
      "Delete the file and fetch it again."
    )
  part = path.with_name(path.name + ".part")
  with bz2.open(packed) as stream, tarfile.open(fileobj=stream) as archive:
    member = archive.extractfile(path.name)
    if member is None:
      raise DataError(f"{packed} has no member {path.name}. Delete the file and fetch it again.")
    with open(part, "wb") as target:
      shutil.copyfileobj(member, target)
  part.replace(path)
  packed.unlink()


def download(url: str, path: pathlib.Path, *, what: str, wanted: pathlib.Path) -> None:
  """Downloads a file, unless it exists.

  The data goes to `path`.download first. An interrupted download resumes as long as each attempt receives
  some data; after that, the next call continues where this one stopped.

  Args:
    url: the address.
    path: the file to write.
    what: the name of the file in the progress bar and in error messages.
    wanted: the path that error messages name; it may be what is later unpacked from `path`.

  Raises:
    DataError: the file cannot be downloaded.
  """
  if path.exists():
    return
  part = path.with_name(path.name + ".download")
  address = url if path == wanted else f"{url} (unpacked)"
  while True:
    before = _size(part)
    try:
      total = _download_rest(url, part, what)
      if total is None or _size(part) == total:
        break
      reason = f"received {_size(part):,} of {total:,} bytes; run again to resume"
    except urllib.error.HTTPError as error:
      raise missing(what, wanted, f"the server answered {error.code}", address) from error
    except (OSError, http.client.HTTPException) as error:
      reason = str(getattr(error, "reason", error))
    if _size(part) <= before:
      raise missing(what, wanted, reason, address)
  os.replace(part, path)


def _download_rest(url: str, part: pathlib.Path, what: str) -> int | None:
  """Appends the missing bytes to a file; returns its full size, if the server tells it."""
  have = _size(part)
  request = urllib.request.Request(url, headers={"Range": f"bytes={have}-"} if have else {})
  try:
    response = urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS)
  except urllib.error.HTTPError as error:
    if have and error.code == 416:  # the range is empty: the file is complete, or a different one
      if error.headers.get("Content-Range") == f"bytes */{have}":
        return have
      part.unlink()
      return _download_rest(url, part, what)
    raise
  with response:
    if have and response.status != 206:  # the server ignores ranges: start over
      have = 0
    length = response.headers.get("Content-Length")
    total = have + int(length) if length else None
    part.parent.mkdir(parents=True, exist_ok=True)  # only now, so that a failure leaves no folder
    with (
      open(part, "ab" if have else "wb") as file,
      tqdm.tqdm(total=total, initial=have, unit="B", unit_scale=True, desc=what) as bar,
    ):
      # `read1` returns whatever has arrived, so that an interruption loses nothing.
      while chunk := response.read1(_CHUNK):
        file.write(chunk)
        bar.update(len(chunk))
  return total


def _size(path: pathlib.Path) -> int:
  return path.stat().st_size if path.exists() else 0
