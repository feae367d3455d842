"""Where data sets lie on the disk, and what to say of a file that is missing or broken."""

import pathlib

DEFAULT_DATA_DIR = "~/.cache/tff_momentum"


class DataError(ValueError):
  """A data set that is missing or broken, told in one sentence."""


def root(data_dir: str | None) -> pathlib.Path:
  """The folder of the data sets, with `tff/` and `tfds/` in it."""
  return pathlib.Path(data_dir or DEFAULT_DATA_DIR).expanduser()


def missing(what: str, path: pathlib.Path, reason: str) -> DataError:
  """The error for data that is neither here nor obtainable: it names the two ways on."""
  return DataError(
    f"{what} is not at {path} and could not be downloaded ({reason}): put it there or name another "
    "folder with --data_dir (its tff/ and tfds/ already filled), or run on --data=synthetic."
  )


def readable(path: pathlib.Path) -> bytes:
  """The first hundred bytes of a file, or a `DataError` that says why it cannot be read."""
  try:
    with open(path, "rb") as file:
      head = file.read(100)
  except IsADirectoryError:
    raise DataError(f"{path} should be a file, but is a folder; move it away.") from None
  except PermissionError:
    raise DataError(f"{path} may not be read by this user; change its permissions.") from None
  except OSError as error:
    raise DataError(f"{path} cannot be read ({error.strerror}).") from None
  if not head:
    raise DataError(f"{path} is empty; delete it, and fetch it again.")
  return head
