"""Evaluates `name(1, b=2)` from a command line against a dict of allowed callables, without `eval`.

>>> evaluate("rate", "double(3)", {"double": lambda x: 2 * x})
6
"""

import ast
import difflib
import re
from collections.abc import Callable, Mapping
from typing import Any


def evaluate(
  what: str,
  text: str,
  callables: Mapping[str, Callable[..., Any]],
  *,
  literal: str = "a number",
  call: str = "one of",
) -> Any:
  """Returns the literal in `text`, or the result of the call that `text` spells.

  Args:
    what: the name of the value, for the error message.
    text: a Python literal (`0.1`, `[1, 2]`), a bare name (`sgdm`), or a call with literal arguments.
    callables: the allowed callables by name.
    literal: what a literal stands for, for the error message; empty if only calls make sense.
    call: the words before the names of the callables in the error message.

  Raises:
    ValueError: the text is neither, names an unknown callable, or its arguments do not fit.
  """
  expected = " or ".join(filter(None, [literal, f"{call} {_forms(callables)}"]))
  try:
    node = ast.parse(text.strip(), mode="eval").body
    if isinstance(node, ast.Name):
      node = ast.Call(func=node, args=[], keywords=[])
    if not isinstance(node, ast.Call):
      return ast.literal_eval(node)
    name = node.func.id if isinstance(node.func, ast.Name) else ast.unparse(node.func)
    arguments = [ast.literal_eval(argument) for argument in node.args]
    keywords = {str(k.arg): ast.literal_eval(k.value) for k in node.keywords}
  except (SyntaxError, ValueError, TypeError, MemoryError, RecursionError):
    raise ValueError(f"{what} must be {expected}; found {text!r}.") from None
  if name not in callables:
    close = difflib.get_close_matches(name, callables, n=1)
    hint = f" Did you mean {close[0]}?" if close else ""
    raise ValueError(f"{what} must be {expected}; found {text!r}.{hint}")
  try:
    return callables[name](*arguments, **keywords)
  except TypeError as error:
    # Python names a nested function with the functions around it: `parse.<locals>.lognormal()`.
    reason = re.sub(r"\S+<locals>\.", "", str(error)).replace("()", "")
    raise ValueError(f"{what}={text!r} has wrong arguments: {reason}.") from None


def _forms(callables: Mapping[str, Any]) -> str:
  return ", ".join(f"{name}(…)" for name in callables)
