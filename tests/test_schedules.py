"""Schedules: values, bounds, and command-line text."""

import math

import numpy as np
import pytest

from tff_momentum import schedules
from tff_momentum.schedules import cosine, exponential, multistage, schedule, step

VALUES = {
  "constant(0.3)": [0.3] * 6,
  "step(0.8, every=2, factor=0.5)": [0.8, 0.8, 0.4, 0.4, 0.2, 0.2],
  "multistage([1, 3], [0.5, 0.25])": [0.5, 0.25, 0.25, 0.25, 0.25, 0.25],
  "exponential(0.8, decay=0.5)": [0.8 * 0.5**t for t in range(6)],
  "cosine(1.0, rounds=4, final=0.2)": [
    0.2 + 0.8 * (1 + math.cos(math.pi * min(t, 4) / 4)) / 2 for t in range(6)
  ],
  "polynomial(0.9, power=2, rounds=3)": [0.9 / (1 + t / 3) ** 2 for t in range(6)],
}


@pytest.mark.parametrize("text", VALUES)
def test_values_by_round(text):
  ours = schedule("rate", text)
  np.testing.assert_allclose([float(ours(t)) for t in range(6)], VALUES[text], rtol=1e-6)
  assert ours(3).dtype.name == "float32"
  assert ours.low <= min(VALUES[text])
  assert ours.high == max(VALUES[text])


@pytest.mark.parametrize("text", VALUES)
def test_the_text_spells_the_schedule_again(text):
  ours = schedule("rate", text)
  again = schedule("rate", str(ours))
  assert str(again) == str(ours)
  assert [float(again(t)) for t in range(6)] == [float(ours(t)) for t in range(6)]


def test_a_number_and_a_schedule_are_taken_as_they_are():
  assert float(schedule("rate", 0.25, above=0)(7)) == 0.25
  assert float(schedule("rate", 1)(7)) == 1.0
  decaying = exponential(0.1, decay=0.9)
  assert schedule("rate", decaying, above=0) is decaying


@pytest.mark.parametrize("t", [1, 2, 143, 100_000, 16_000_000])
def test_a_stage_begins_in_its_own_round(t):
  ours = multistage([t, 5], [1.0, 2.0])
  assert [float(ours(t - 1)), float(ours(t))] == [1.0, 2.0]


@pytest.mark.parametrize(
  ("value", "bounds", "reason"),
  [
    (0.0, {"above": 0}, "rate must be a finite number above 0; found 0.0."),
    (float("nan"), {}, "finite number"),
    (float("inf"), {}, "finite number"),
    (True, {}, "finite number"),
    (None, {}, "finite number"),
    ("fast", {}, "must be a number or a schedule: constant"),
    ("0.1 +", {}, "number or a schedule: "),
    ("stop(0.1, every=3)", {}, "Did you mean step"),
    ("step(0.1)", {}, "wrong arguments"),
    ("step(0.1, every=0)", {}, "at least 1"),
    ("step(0.1, every=3, factor=2)", {}, "factor must be"),
    ("exponential(0.1, decay=0)", {}, "decay must be"),
    ("polynomial(0.1, power=0)", {}, "power must be"),
    ("polynomial(0.1, rounds=0)", {}, "rounds must be"),
    ("cosine(0.1, rounds=2.5)", {}, "rounds must be a whole number"),
    ("multistage([2], [0.1, 0.2])", {}, "as many lengths as values"),
    ("multistage([], [])", {}, "at least one"),
    ("multistage([0], [1.0])", {}, "length must be"),
    (step(-0.1, every=3), {"above": 0}, "rate must be"),
    (multistage([2, 2], [0.5, 1.0]), {"at_least": 0, "below": 1}, "rate must be"),
    (cosine(0.5, rounds=3, final=-0.1), {"at_least": 0}, "rate must be"),
  ],
)
def test_a_bad_schedule_is_refused(value, bounds, reason):
  with pytest.raises(ValueError, match=reason):
    schedule("rate", value, **bounds)


def test_every_kind_can_be_spelled():
  assert {text.split("(")[0] for text in VALUES} == set(schedules.SCHEDULES)
