"""The data folder, and the errors for files that are missing or damaged."""

import os
import pathlib

DEFAULT_DATA_DIR = "~/.cache/tff_momentum"
VARIABLE = "TFM_DATA_DIR"  # the environment variable that replaces the default


class DataError(ValueError):
  """A data set is missing or damaged; the message is one line for the user."""


def root(data_dir: str | None) -> pathlib.Path:
  """Returns the data folder, which contains `tff/` and `tfds/`.

  Args:
    data_dir: the folder that the user names; by default that of the environment variable `TFM_DATA_DIR`, or
      else `DEFAULT_DATA_DIR`.
  """
  return pathlib.Path(data_dir or os.environ.get(VARIABLE) or DEFAULT_DATA_DIR).expanduser()


def check_given(data_dir: str | None) -> None:
  """Raises `DataError` if the user names a data folder that is none: a wrong name must not be created.

  Args:
    data_dir: the folder that the user names, None if it is left to `root`; or the .csv file of a task that
      reads a single one.
  """
  given, how = data_dir or os.environ.get(VARIABLE), "--data_dir" if data_dir else f"${VARIABLE}"
  path = root(data_dir)
  if given and not path.is_dir() and not (path.suffix == ".csv" and path.is_file()):
    found = "a file" if path.exists() else "nothing"
    raise DataError(
      f"{how} must be the folder that contains tff/ and tfds/; found {found} at {path}. Create the folder, "
      "or name another one."
    )


def missing(what: str, path: pathlib.Path, reason: str, address: str) -> DataError:
  """Returns the error for data that does not exist and cannot be downloaded, with the remedies.

  Args:
    what: the name of the data.
    path: where it should be.
    reason: why it is not there.
    address: where to get it from on another machine; a URL, or a sentence's part with one.
  """
  return DataError(
    f"{what} is not at {path} and could not be downloaded ({reason}). On a machine with a network, get it "
    f"from {address} and put it there; or name a folder with the data (tff/ and tfds/) with --data_dir, or "
    "use --data=synthetic."
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
