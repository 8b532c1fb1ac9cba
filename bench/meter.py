"""Looks at the ends of stream and output, again and again, beside whatever else goes on."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Self

from bench.catch_up_model import Sample
from jobs.clients import librdkafka_config
from jobs.settings import Settings
from udfs.targets import TargetResolver

_EVERY_S = 0.2
_DEADLINE_S = 3600.0


class Meter:
    """Samples of a job's stream and enriched topic while it is entered.

    The counts are log ends, so the topics must hold no transactions.
    """

    def __init__(self, settings: Settings) -> None:
        self._held = ExitStack()
        client = librdkafka_config(settings)
        self._stream, self._enriched = (
            self._held.enter_context(TargetResolver(client, topic, "read_uncommitted"))
            for topic in (settings.stream.topic, settings.output.enriched)
        )
        self._partitions = {
            resolver: resolver.topic().partitions for resolver in (self._stream, self._enriched)
        }
        self._samples = [self._look()]
        self._rose_s = self._samples[0].at_s
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="meter", daemon=True)
        self._problem: Exception | None = None

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self._held.close()

    def samples(self) -> list[Sample]:
        """All of them so far, oldest first."""
        return list(self._samples)

    def last(self) -> Sample:
        """The newest.

        Raises:
            RuntimeError: the brokers stopped answering.
        """
        if self._problem is not None:
            raise RuntimeError("no more samples") from self._problem
        return self._samples[-1]

    def last_rise(self) -> float:
        """When an event was last seen to have left the job."""
        return self._rose_s

    def wait(self, met: Callable[[Sample], bool], what: str, *, every_s: float = _EVERY_S) -> None:
        """Return when ``met`` says yes to the newest; raises TimeoutError after an hour."""
        deadline = time.monotonic() + _DEADLINE_S
        while not met(self.last()):
            if time.monotonic() > deadline:
                raise TimeoutError(f"{what}: not within {_DEADLINE_S:.0f} s; {self.last()}")
            time.sleep(every_s)

    def _look(self) -> Sample:
        # The output first: what leaves between the two looks is lag, never a negative one.
        enriched = self._count(self._enriched)
        return Sample(time.monotonic(), self._count(self._stream), enriched)

    def _count(self, resolver: TargetResolver) -> int:
        return sum(resolver.log_ends(self._partitions[resolver]).values())

    def _run(self) -> None:
        try:
            while not self._stop.wait(_EVERY_S):
                sample = self._look()
                if sample.enriched > self._samples[-1].enriched:
                    self._rose_s = sample.at_s
                self._samples.append(sample)
        except Exception as error:  # noqa: BLE001  (told to whoever asks for the next sample)
            self._problem = error
