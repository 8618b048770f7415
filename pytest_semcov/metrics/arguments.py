"""Checks of arguments that are numbers."""

from __future__ import annotations

import numbers

from pytest_semcov.errors import ArgumentError


def require_confidence(confidence: float) -> None:
    """Check that a confidence is a number between 0 and 1.

    Raises
    ------
    ArgumentError
        If it is not.
    """
    require_number("confidence", confidence)
    if not 0 < confidence < 1:
        raise ArgumentError(f"confidence is {confidence}: need a number between 0 and 1")


def require_number(name: str, value: object) -> None:
    """Check that an argument is a real number (NaN is one).

    Raises
    ------
    ArgumentError
        If it is something else.
    """
    if not isinstance(value, numbers.Real):
        raise ArgumentError(f"{name} is {value!r}: need a number")


def require_whole(name: str, value: object, *, least: int) -> None:
    """Check that an argument is a whole number of at least ``least``.

    Raises
    ------
    ArgumentError
        If it is not.
    """
    if not isinstance(value, numbers.Integral) or value < least:
        raise ArgumentError(f"{name} is {value!r}: need a whole number, at least {least}")
