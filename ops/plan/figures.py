"""A number, and where it is from."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

from udfs.core.errors import ConfigError


class Origin(StrEnum):
    """How far a number can be trusted."""

    GIVEN = "given"
    """By whoever asked, or in the job's settings."""
    MEASURED = "measured"
    """On the topics just now, or by a bench whose file was named."""
    ASSUMED = "assumed"
    """Nobody said it: a default, measured elsewhere or none at all."""
    COMPUTED = "computed"
    """From the others."""


@dataclass(frozen=True, slots=True)
class Figure:
    """One number with its unit.

    ``value`` is None for a time that never ends and a number that cannot be known. ``source``
    names the option, file, topic or document that it is from; of a computed one, what it follows
    from. ``assumes`` are the names of those inputs of a computed one that are assumed.
    """

    value: float | None
    unit: str
    origin: Origin
    source: str
    assumes: tuple[str, ...] = ()

    @property
    def number(self) -> float:
        """The value of an input, which always has one."""
        if self.value is None:
            raise ValueError(f"no value: {self.source}")
        return self.value


# Beyond these a number is a slip, and some of what is reckoned with it no number at all.
_LEAST, _MOST = 1e-6, 1e15


def checked(name: str, value: float, unit: str, *, zero: bool = False) -> float:
    """``value``, if it is a number above 0 of a sensible size, or 0 where ``zero`` is allowed.

    Raises:
        ConfigError: it is not; ``name`` is the option or the place in a file.
    """
    if _LEAST <= value <= _MOST or (zero and value == 0):
        return value
    if math.isfinite(value) and value > 0:
        raise ConfigError(name, value, f"give {_LEAST:g} to {_MOST:g}, in {unit}")
    least = "0 or more" if zero else "a number above 0"
    raise ConfigError(name, value, f"give {least}, in {unit}")
