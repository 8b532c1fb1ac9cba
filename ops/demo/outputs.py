"""Collects what the two jobs write, as they write it."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Self

from ops.demo.check import Outputs, Record
from ops.demo.topics import Reader

JOBS = ("ungated", "gated")
KINDS = Outputs._fields


def topic(job: str, kind: str) -> str:
    """The output topic of a job."""
    return f"{job}.{kind}"


@dataclass
class Collected:
    """What one job wrote so far. ``changed`` is when something last arrived (monotonic seconds)."""

    outputs: Outputs = field(default_factory=lambda: Outputs([], [], []))
    ids: set[bytes | None] = field(default_factory=set)
    changed: float = 0.0

    @property
    def accounted(self) -> int:
        """Distinct orders that are in some output."""
        return len(self.ids)


class Collector:
    """Reads every output topic of both jobs from its beginning."""

    def __init__(self, bootstrap_servers: str, id_header: str) -> None:
        self._places = {topic(job, kind): (job, kind) for job in JOBS for kind in KINDS}
        self._reader = Reader(bootstrap_servers, self._places)
        self._id_header = id_header
        self.jobs = {job: Collected() for job in JOBS}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._reader.close()

    def poll(self, timeout_s: float) -> None:
        """Take what has arrived; return after ``timeout_s`` without anything."""
        self._take(self._reader.poll(timeout_s))

    def rest(self) -> None:
        """Take everything that stands in the topics now."""
        self._take(self._reader.rest())

    def _take(self, found: Iterable[tuple[str, Record]]) -> None:
        now = time.monotonic()
        for name, record in found:
            job, kind = self._places[name]
            collected = self.jobs[job]
            getattr(collected.outputs, kind).append(record)
            collected.ids.add(dict(record.headers).get(self._id_header, record.key))
            collected.changed = now
