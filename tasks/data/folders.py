"""The data folder, and the errors for files that are missing or damaged."""

import pathlib

DEFAULT_DATA_DIR = "~/.cache/tff_momentum"


class DataError(ValueError):
  """A data set is missing or damaged; the message is one line for the user."""


def root(data_dir: str | None) -> pathlib.Path:
  """Returns the data folder, which contains `tff/` and `tfds/`."""
  return pathlib.Path(data_dir or DEFAULT_DATA_DIR).expanduser()


def missing(what: str, path: pathlib.Path, reason: str) -> DataError:
  """Returns the error for data that does not exist and cannot be downloaded, with the two remedies."""
  return DataError(
    f"{what} is not at {path} and could not be downloaded ({reason}). Put it there, name a folder with the "
    "data (tff/ and tfds/) with --data_dir, or use --data=synthetic."
  )


def readable(path: pathlib.Path) -> bytes:
  """Returns the first hundred bytes of a file; raises `DataError` if it cannot be read or is empty."""
  try:
    with open(path, "rb") as file:
      head = file.read(100)
  except IsADirectoryError:
    raise DataError(f"{path}: expected a file; found a folder. Move it away.") from None
  except PermissionError:
    raise DataError(f"{path} is not readable by this user. Change its permissions.") from None
  except OSError as error:
    raise DataError(f"{path} cannot be read ({error.strerror}).") from None
  if not head:
    raise DataError(f"{path} is empty. Delete the file and fetch it again.")
  return head
