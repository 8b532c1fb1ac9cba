"""What the broker and a plain client in Python do: bytes in, bytes out."""

from __future__ import annotations

import sys
from importlib.metadata import version
from typing import ClassVar

from confluent_kafka import libversion

from bench.systems.contract import Run, System, Work
from bench.systems.flink import JOBS
from ops.stack.processes import ProcessSet, find, tail
from udfs.core.errors import TablegateError

_NAME = "forwarder-{}"


class LimitBroker(System):
    """One process for each of ``parallelism``, in one consumer group."""

    name: ClassVar[str] = "limit-broker"
    about: ClassVar[str] = (
        "a librdkafka consumer and producer, bytes as they are; nothing is joined"
    )
    gated: ClassVar[bool] = False
    restarts: ClassVar[bool] = False

    def versions(self) -> dict[str, str]:
        """Of the client."""
        return {"confluent-kafka": version("confluent-kafka"), "librdkafka": libversion()[0]}

    def prepare(self) -> None:
        """Nothing to do: the client is among the project's own packages."""

    def start(self, work: Work) -> ForwarderRun:
        """Start the processes."""
        run = ForwarderRun(work)
        try:
            run.spawn()
        except TablegateError as error:
            run.close()
            raise RuntimeError(str(error)) from error
        return run


class ForwarderRun(Run):
    """Processes of flink_jobs' neighbour ``forwarder.py``."""

    def __init__(self, work: Work) -> None:
        self._work = work
        work.place.mkdir(parents=True, exist_ok=True)
        self._processes = ProcessSet(work.place)

    def spawn(self) -> None:
        """Start them. Raises StackError when one cannot be started."""
        work = self._work
        for number in range(work.parallelism):
            name = _NAME.format(number)
            self._processes.spawn(
                name,
                [
                    *(sys.executable, str(JOBS.with_name("forwarder.py"))),
                    *(work.brokers, work.name, work.stream, work.enriched),
                ],
                log=work.place / f"{name}.log",
                env={},
            )

    def pids(self) -> list[int]:
        """Those that live."""
        return [record.pid for record in self._processes.records().values() if find(record)]

    def problem(self) -> str | None:
        """The log of the first that ended."""
        for name, record in sorted(self._processes.records().items()):
            if not find(record):
                return f"{name} ended:\n{tail(self._work.place / f'{name}.log')}"
        return None

    def state_bytes(self) -> int | None:
        """It has none."""
        return 0

    def stop(self) -> None:
        """As ``close``."""
        self.close()

    def close(self) -> None:
        """End the processes."""
        self._processes.stop()
