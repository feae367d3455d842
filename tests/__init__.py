"""The tests mirror the source tree; shared parts are in `tests.helpers` and `tests.oracle`."""

import pathlib

ROOT = pathlib.Path(__file__).resolve().parent.parent
