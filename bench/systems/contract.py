"""What a system under measurement is asked to do, and what it has to tell the harness.

Every system does the same work on the same broker: join the events of a stream with a table kept in
a compacted topic, by a field of the event that is not its Kafka key, and write each event with the
row's ``tier`` to the enriched topic. ``bench.records`` says what events and rows look like.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Self


@dataclass(frozen=True)
class Work:
    """One run of one system.

    Topics exist, with ``partitions`` partitions each, before a system is started.
    """

    brokers: str
    """``host:port`` of the broker."""
    name: str
    """Of this run; no other run of this broker has it. For application and group ids."""
    stream: str
    """Topic of the events."""
    table: str
    """Compacted topic of the rows."""
    enriched: str
    """Topic that takes one record for each event."""
    place: Path
    """A folder of this run's own, on local disk: state, logs, configuration."""
    partitions: int = 4
    parallelism: int = 1
    """Subtasks, threads or processes that share the work, in the system's own terms."""
    options: Mapping[str, str] = field(default_factory=dict)
    """Of a system's own, such as ``state`` (``rocksdb`` or ``hashmap``)."""


class Run(ABC):
    """A system that was started; ends its processes when it is left.

    ``submitted_s`` is when it was submitted, in seconds since the epoch, for one that runs on a
    cluster which stands before; None: it began with its first process.
    """

    submitted_s: float | None = None

    @abstractmethod
    def pids(self) -> list[int]:
        """The roots of its process trees (the broker's not among them), for CPU and memory."""

    @abstractmethod
    def problem(self) -> str | None:
        """Why it will write no more, with the last lines of its log; None while it runs."""

    @abstractmethod
    def state_bytes(self) -> int | None:
        """Bytes that its state takes on local disk or in its newest checkpoint; None if unknown."""

    def gate_open_s(self) -> float | None:
        """Seconds from when all its tasks ran to when its gate opened; None: it has no gate."""
        return None

    @abstractmethod
    def stop(self) -> None:
        """Stop as for a planned restart: what ``System.start`` finds by the same Work goes on.

        Raises:
            RuntimeError: it did not stop, or not cleanly.
        """

    @abstractmethod
    def close(self) -> None:
        """End every process of it, by pid, whatever state it is in. May be called twice."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class System(ABC):
    """Something that can do the work. One line of the table of results."""

    name: ClassVar[str]
    """As the tables print it, and as ``--systems`` selects it: lower case and hyphens."""
    about: ClassVar[str]
    """One line for the table's legend: what runs, in which mode."""
    gated: ClassVar[bool]
    """Whether it holds the stream until the table is there, by its own promise."""
    restarts: ClassVar[bool]
    """Whether a second ``start`` after ``Run.stop`` goes on where it was."""

    @abstractmethod
    def versions(self) -> dict[str, str]:
        """Name to version of what it is made of."""

    @abstractmethod
    def prepare(self) -> None:
        """Install or build what it needs, once; quick when that is done.

        Raises:
            RuntimeError: it cannot be had on this machine, with the reason.
        """

    @abstractmethod
    def start(self, work: Work) -> Run:
        """Start it, or go on after ``Run.stop``; returns when its processes run or were submitted.

        Raises:
            RuntimeError: it did not start, with the last lines of its log.
        """
