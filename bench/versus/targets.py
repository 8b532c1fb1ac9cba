"""Issue 7's targets, each held against what one run of the bench found. Values in, values out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from bench import page
from bench.versus.model import REFERENCE, Spread

Found = Mapping[str, Mapping[str, Spread]]
"""By system and measure, as ``bench.versus.model.spreads`` gives it."""

_DATASTREAM, _SQL = "tablegate-datastream", "tablegate-sql"
_NAIVE = ("pyflink-naive-thread", "pyflink-naive-process")


class Judged(NamedTuple):
    """A target, and what was found."""

    target: str
    found: float
    limit: float
    met: bool


def of_versus(found: Found, scan: Spread | None) -> list[Judged]:
    """The targets that speak of systems side by side; those whose systems did not run are left out.

    ``scan`` is what Flink alone took to read the table topic, in seconds.
    """
    rate = _measure(found, "events_per_s")
    opened = _measure(found, "open_s")
    restart = _measure(found, "restart_gate_s")
    naive = max((rate[name] for name in _NAIVE if name in rate), default=None)
    judged = [
        _least("SQL variant to Kafka Streams' KTable, events/s", rate, _SQL, REFERENCE, 1.0),
        _least("DataStream to Kafka Streams' KTable, events/s", rate, _DATASTREAM, REFERENCE, 0.6),
        _against("DataStream to the naive PyFlink job, events/s", rate.get(_DATASTREAM), naive, 5),
        _least("DataStream to Quix Streams, events/s", rate, _DATASTREAM, "quix-join-asof", 3.0),
        _most("SQL variant's gate open, to the scan", opened.get(_SQL), _seconds(scan), 1.5),
    ]
    for name in (_DATASTREAM, _SQL):
        gate = f"`{name}` to itself without gate, events/s"
        quiet = f"`{name}`, quiet restart: gate open after its tasks ran, s"
        judged += [
            _least(gate, rate, name, f"{name}-no-gate", 0.97),
            _most(quiet, restart.get(name), 1, 2),
        ]
    return [one for one in judged if one is not None]


def of_two_million_rows(found: Found, scan: Spread | None) -> list[Judged]:
    """Those that speak of 2,000,000 rows of 500 bytes."""
    opened = _measure(found, "open_s")
    judged = [
        _most("DataStream's gate open, s", opened.get(_DATASTREAM), 1, 60),
        _most("SQL variant's gate open, s", opened.get(_SQL), 1, 30),
        _most("SQL variant's gate open, to the scan", opened.get(_SQL), _seconds(scan), 1.5),
    ]
    return [one for one in judged if one is not None]


def markdown(judged: list[Judged]) -> str:
    """A table of them; empty for none."""
    if not judged:
        return ""
    rows = [
        (one.target, f"{one.found:.2f}", f"{one.limit:g}", "met" if one.met else "**not met**")
        for one in judged
    ]
    return page.table(("target", "found", "asked for", ""), rows)


def _seconds(scan: Spread | None) -> float | None:
    return None if scan is None else scan.median


def _measure(found: Found, measure: str) -> dict[str, float]:
    return {name: of[measure].median for name, of in found.items() if measure in of}


def _least(
    target: str, values: Mapping[str, float], ours: str, theirs: str, limit: float
) -> Judged | None:
    return _against(target, values.get(ours), values.get(theirs), limit)


def _against(target: str, ours: float | None, theirs: float | None, limit: float) -> Judged | None:
    return _judged(target, ours, theirs, limit, lambda found: found >= limit)


def _most(target: str, ours: float | None, of: float | None, limit: float) -> Judged | None:
    return _judged(target, ours, of, limit, lambda found: found <= limit)


def _judged(
    target: str,
    ours: float | None,
    of: float | None,
    limit: float,
    met: Callable[[float], bool],
) -> Judged | None:
    if ours is None or not of:
        return None
    return Judged(target, ours / of, limit, met(ours / of))
