"""Mistakes of the user: one sentence on stderr and exit code 2, never a traceback."""

import argparse
import contextlib
import difflib
import sys
from collections.abc import Iterable, Iterator
from typing import NoReturn


class UserError(Exception):
  """A mistake of the user, in one sentence: what was expected, what was found, what to do."""


class OneSentenceParser(argparse.ArgumentParser):
  """A parser that answers a mistake with one sentence, without the usage text."""

  def error(self, message: str) -> NoReturn:
    """Prints the sentence after the program's name and exits with code 2."""
    self.exit(2, f"{self.prog}: {message}; --help shows how to call it.\n")


def fail(message: str, code: int = 2) -> NoReturn:
  """Prints the sentence after the program's name and exits."""
  print(f"{sys.argv[0].rsplit('/', 1)[-1]}: {message}", file=sys.stderr)
  sys.exit(code)


@contextlib.contextmanager
def as_user_errors(*kinds: type[Exception]) -> Iterator[None]:
  """Turns errors of these kinds, which the library raises for invalid values, into `UserError`."""
  try:
    yield
  except kinds as error:
    raise UserError(str(error)) from error


def check_name(
  flag: str,
  name: str | None,
  known: Iterable[str],
  prefixes: tuple[str, ...] = (),
  see: str = "--list",
) -> None:
  """Raises `UserError`, with suggestions, unless the flag names one of `known`.

  Args:
    flag: the flag, as in `--task`.
    name: its value; None if the flag is missing.
    known: the valid names.
    prefixes: a name that starts with one of these is valid too.
    see: what shows the valid names.
  """
  known = sorted(known)
  if name is None:
    raise UserError(f"{flag} is missing; {see} shows the choices.")
  if name not in known and not name.startswith(prefixes or ("\0",)):
    raise UserError(
      f"there is no {flag[2:]} {name!r}{suggestions(name, known)}; {see} shows the choices."
    )


def unknown_name(owner: str, name: str, known: Iterable[str]) -> UserError:
  """The error for a name that its owner, such as "the task digits", does not have."""
  known = sorted(known)
  return UserError(
    f"{owner} has no {name!r}{suggestions(name, known)}; it has {', '.join(known) or 'none'}."
  )


def suggestions(name: str, known: Iterable[str], prefix: str = "") -> str:
  """The similar names as ` (did you mean ...?)`, each after the prefix; empty if there is none."""
  close = difflib.get_close_matches(name, list(known), n=3, cutoff=0.5)
  return f" (did you mean {' or '.join(prefix + match for match in close)}?)" if close else ""
