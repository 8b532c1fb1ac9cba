"""What a system takes of the machine while it works, and how far its output is."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import NamedTuple, Self

import psutil
from confluent_kafka import Consumer, TopicPartition

_EVERY_S = 0.5


class Sample(NamedTuple):
    """At one moment (monotonic s): records in the output, the system's CPU seconds and memory."""

    at_s: float
    written: int
    cpu_s: float
    memory_bytes: int


def processes(roots: Iterable[int]) -> Iterator[psutil.Process]:
    """The processes of these trees that are there now."""
    for pid in roots:
        with suppress(psutil.Error):
            root = psutil.Process(pid)
            yield root
            yield from root.children(recursive=True)


class Usage:
    """CPU seconds of process trees, those of processes that ended meanwhile included."""

    def __init__(self) -> None:
        self._seen: dict[tuple[int, float], float] = {}

    def look(self, roots: Iterable[int]) -> tuple[float, int]:
        """CPU seconds so far, and bytes of memory now.

        Memory is the proportional set size: pages that processes share count once.
        """
        memory = 0
        for process in processes(roots):
            with suppress(psutil.Error):
                times = process.cpu_times()
                self._seen[process.pid, process.create_time()] = times.user + times.system
                memory += process.memory_full_info().pss
        return sum(self._seen.values()), memory


class Ends:
    """Asks for the number of records in a topic, over and over."""

    def __init__(self, brokers: str, topic: str, partitions: int) -> None:
        self._consumer = Consumer(
            {"bootstrap.servers": brokers, "group.id": "bench-ends", "log_level": 3}
        )
        self._partitions = [TopicPartition(topic, p) for p in range(partitions)]

    def count(self) -> int:
        """Records so far; the topic must hold no transactions."""
        watermarks = (self._consumer.get_watermark_offsets(p, 10.0) for p in self._partitions)
        return sum(found[1] for found in watermarks if found)

    def close(self) -> None:
        """Let go of the broker."""
        self._consumer.close()


class Observer:
    """Samples a system's output and processes twice a second while it is entered."""

    def __init__(
        self, brokers: str, topic: str, partitions: int, roots: Callable[[], list[int]]
    ) -> None:
        self._ends = Ends(brokers, topic, partitions)
        self._roots, self._usage = roots, Usage()
        self._samples: list[Sample] = [self._look()]
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="observer", daemon=True)
        self._problem: Exception | None = None

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self._ends.close()

    def last(self) -> Sample:
        """The newest sample. Raises RuntimeError when there will be no more."""
        if self._problem is not None:
            raise RuntimeError("no more samples") from self._problem
        return self._samples[-1]

    def samples(self) -> list[Sample]:
        """All so far, oldest first."""
        return list(self._samples)

    def _look(self) -> Sample:
        cpu_s, memory = self._usage.look(self._roots())
        return Sample(time.monotonic(), self._ends.count(), cpu_s, memory)

    def _run(self) -> None:
        try:
            while not self._stop.wait(_EVERY_S):
                self._samples.append(self._look())
        except Exception as error:  # noqa: BLE001  (told to whoever asks for the next sample)
            self._problem = error
