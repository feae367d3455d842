"""Functions of the user's own by name, as in `my_package.my_module:my_builder`.

`--algo` and `--task` take such names besides those of the registries. The module is imported from Python's
path or from the working directory, which comes last, so that it never hides a module of this project.

    >>> is_user_code("my_package.my_module:my_builder"), is_user_code("fedavg"), is_user_code("tfds:mnist")
    (True, False, False)
    >>> find("json:loads") is __import__("json").loads
    True
"""

import functools
import importlib
import inspect
import os
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import Any

# Module names that this project takes; a user's module of the same name is never found.
TAKEN = ("experiments", "tasks", "tests", "tff_momentum")
_OTHER_PREFIXES = ("tfds:",)  # names with a colon that are no functions
_EXAMPLE = "my_package.my_module:my_function"


class UserCodeError(ValueError):
  """The user's function cannot be used: what was expected, what was found, what to do, in one sentence."""


def is_user_code(name: str) -> bool:
  """Whether a name stands for a function of the user's own."""
  return ":" in name and not name.startswith(_OTHER_PREFIXES)


def plain_name(name: str) -> str:
  """The name for folders and files: without a colon.

  >>> plain_name("my_package.my_module:my_builder"), plain_name("fedavg")
  ('my_package.my_module.my_builder', 'fedavg')
  """
  return name.replace(":", ".") if is_user_code(name) else name


def add_folder(folder: str) -> None:
  """Makes the modules in a folder importable, after all others."""
  if folder not in sys.path:
    sys.path.append(folder)


@functools.cache
def find(name: str) -> Callable[..., Any]:
  """Imports the function with this name.

  Args:
    name: `package.module:function`.

  Raises:
    UserCodeError: there is no such module or function, the module cannot be imported, or the name belongs
      to something that cannot be called.
  """
  module_name, _, function_name = name.partition(":")
  if not function_name.isidentifier() or not all(p.isidentifier() for p in module_name.split(".")):
    raise UserCodeError(f"expected a name like {_EXAMPLE}; found {name!r}.")
  os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # the module may import TensorFlow
  add_folder(os.getcwd())
  try:
    module = importlib.import_module(module_name)
  except Exception as error:
    raise UserCodeError(_import_failure(name, module_name, error)) from error
  if not hasattr(module, function_name):
    functions = [key for key, value in vars(module).items() if _is_own(value, module_name)]
    defined = f"it defines {', '.join(functions)}" if functions else "it defines no functions"
    raise UserCodeError(
      f"expected a function {function_name} in {module_name} ({getattr(module, '__file__', None)}); found "
      f"none: {defined}."
    )
  function = getattr(module, function_name)
  if not callable(function):
    raise UserCodeError(
      f"expected a function at {name}; found {type(function).__name__} {function!r:.60}: name a function."
    )
  return function


def parameters(name: str, required: object, needed: Sequence[str] = ()) -> dict[str, Any]:
  """The keyword arguments of a function and their defaults.

  Args:
    name: the function's name, as `find` takes it.
    required: what stands for the default of an argument that has none.
    needed: arguments that the function must have.

  Raises:
    UserCodeError: `find` fails; an argument can only be given by position; `needed` is missing; or a default
      cannot be written to config.json.
  """
  found: dict[str, Any] = {}
  for argument in inspect.signature(find(name)).parameters.values():
    if argument.kind is argument.POSITIONAL_ONLY:
      raise UserCodeError(
        f"expected {name} to take keyword arguments; found {argument.name}, which is given by position "
        "only: remove the / after it."
      )
    if argument.kind in (argument.VAR_POSITIONAL, argument.VAR_KEYWORD):
      continue  # their names are unknown, so nobody can set them
    default = required if argument.default is argument.empty else argument.default
    if default is not required and not _is_literal(default):
      raise UserCodeError(
        f"expected the default of {argument.name} in {name} to be a number, a text, True, False, None or a "
        f"list of these, because config.json records it; found {default!r:.60}: use a text and convert it "
        "in the function."
      )
    found[argument.name] = default
  for argument_name in needed:
    if argument_name not in found:
      arguments = ", ".join(found) or "none"
      raise UserCodeError(
        f"expected {name} to take {argument_name}; found the arguments {arguments}: add {argument_name}."
      )
  return found


def summary(name: str) -> str:
  """The first line of the function's docstring; empty if there is none."""
  return (inspect.getdoc(find(name)) or "").partition("\n")[0]


def call(name: str, arguments: Mapping[str, Any], returns: type, example: str) -> Any:
  """Calls a function and checks what it returns.

  Args:
    name: the function's name, as `find` takes it.
    arguments: its keyword arguments.
    returns: the type that it must return.
    example: the words for this type in an error, as in "a tff_momentum.Algorithm".

  Raises:
    UserCodeError: the function raises another error than ValueError or OSError, which stay as they are, or
      returns something else.
  """
  try:
    result = find(name)(**arguments)
  except (ValueError, OSError):
    raise  # the function's own words about values and files
  except Exception as error:
    raise UserCodeError(f"{name} failed: {_words(error)}.") from error
  if not isinstance(result, returns):
    raise UserCodeError(
      f"expected {name} to return {example}; found {_kind(result)}: return {example}."
    )
  return result


def _kind(value: object) -> str:
  return "None" if value is None else f"an object of type {type(value).__name__}"


def _is_own(value: object, module: str) -> bool:
  """Whether a module defines this function, rather than importing it."""
  return callable(value) and getattr(value, "__module__", None) == module


def _is_literal(value: object) -> bool:
  if isinstance(value, list | tuple):
    return all(map(_is_literal, value))
  return value is None or type(value) in (str, int, float, bool)


def _import_failure(name: str, module_name: str, error: Exception) -> str:
  missing = error.name if isinstance(error, ModuleNotFoundError) else None
  if missing is None or not (module_name == missing or module_name.startswith(f"{missing}.")):
    return f"importing {module_name} for {name} failed: {_words(error)}."
  if module_name.partition(".")[0] in TAKEN:
    return (
      f"expected a module of your own in {name}; found {module_name.partition('.')[0]}, a name that this "
      "project takes: rename your module."
    )
  return (
    f"expected a module {missing} for {name}; found none in {os.getcwd()} or on Python's path: start from "
    "the folder that holds it, or add that folder to PYTHONPATH."
  )


def _words(error: Exception) -> str:
  """The error in one line, and the place in the user's code that raised it."""
  if isinstance(error, SyntaxError):
    return f"{type(error).__name__}: {error.msg} ({error.filename}, line {error.lineno})"
  frames = traceback.extract_tb(error.__traceback__)
  outside = [f for f in frames if f.filename != __file__ and "importlib" not in f.filename]
  place = f" ({outside[-1].filename}, line {outside[-1].lineno})" if outside else ""
  return f"{type(error).__name__}: {' '.join(str(error).split())}{place}"
