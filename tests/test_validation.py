"""Validation and call syntax: which values pass, and the one-sentence error for those that do not."""

import re

import pytest

from tff_momentum import call_syntax, validation


def test_good_values_come_back():
  assert validation.number("a", 0.5, above=0, below=1) == 0.5
  assert validation.number("a", 3) == 3
  assert validation.number("a", 0, at_least=0, at_most=0) == 0
  assert validation.integer("n", 4, at_least=4) == 4
  assert validation.one_of("mode", "a", ("a", "b")) == "a"
  assert validation.boolean("flag", False) is False


@pytest.mark.parametrize(
  "value", [0, 1, -0.1, 1.1, float("nan"), float("inf"), True, "0.5", None, [0.5], 0.5j]
)
def test_a_bad_number_is_named(value):
  sentence = f"a must be a finite number above 0 and below 1; found {value!r}."
  with pytest.raises(ValueError, match=f"^{re.escape(sentence)}$"):
    validation.number("a", value, above=0, below=1)


@pytest.mark.parametrize("value", [3, 4.0, True, "4", None, float("nan")])
def test_a_bad_integer_is_named(value):
  sentence = f"n must be a whole number of at least 4; found {value!r}."
  with pytest.raises(ValueError, match=f"^{re.escape(sentence)}$"):
    validation.integer("n", value, at_least=4)


@pytest.mark.parametrize("value", ["c", "", None, 1])
def test_a_bad_choice_is_named(value):
  sentence = f"mode must be one of a, b; found {value!r}."
  with pytest.raises(ValueError, match=f"^{re.escape(sentence)}$"):
    validation.one_of("mode", value, ("a", "b"))


@pytest.mark.parametrize("value", [0, 1, "True", None])
def test_a_bad_boolean_is_named(value):
  sentence = f"flag must be True or False; found {value!r}."
  with pytest.raises(ValueError, match=f"^{re.escape(sentence)}$"):
    validation.boolean("flag", value)


def pair(a, b=2, *, c=3):
  return a, b, c


@pytest.mark.parametrize(
  ("text", "value"),
  [
    ("0.1", 0.1),
    ("-3", -3),
    (" [1, 2] ", [1, 2]),
    ("None", None),
    ("pair(1)", (1, 2, 3)),
    ("pair(1, b=-2, c=[4])", (1, -2, [4])),
    ("nothing", ()),
    ("nothing()", ()),
  ],
)
def test_literals_and_calls(text, value):
  assert call_syntax.evaluate("it", text, {"pair": pair, "nothing": tuple}) == value


@pytest.mark.parametrize(
  ("text", "reason"),
  [
    ("", "it must be a number or one of pair"),
    ("pair(", "it must be a number or one of pair"),
    ("pair(x)", "it must be a number or one of pair"),
    ("pair(pair(1))", "it must be a number or one of pair"),
    ("1 if 1 else 2", "it must be a number or one of pair"),
    ("piar(1)", "Did you mean pair"),
    ("os.remove('x')", "it must be a number or one of pair"),
    ("pair()", "wrong arguments: pair missing"),
    ("pair(1, d=4)", "wrong arguments"),
    ("pair(*[1])", "it must be a number or one of pair"),
    ("pair(**{'a': 1})", "wrong arguments"),
  ],
)
def test_anything_else_is_refused_in_a_sentence(text, reason):
  with pytest.raises(ValueError, match=reason) as refused:
    call_syntax.evaluate("it", text, {"pair": pair})
  assert str(refused.value).rstrip("?").endswith((".", "pair"))
