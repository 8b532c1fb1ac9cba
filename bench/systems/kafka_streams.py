"""Kafka Streams: its KTable join behind a repartition, and its GlobalKTable join.

Both are one JVM with a Streams thread for each unit of parallelism. Their sources and their tuning
are in ``bench/systems/kafka_streams``.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import ClassVar

from bench.systems import kafka_streams_build
from bench.systems.contract import Run, System, Work
from ops.stack.processes import ProcessSet, tail
from udfs.core.errors import StackError

_NAME = "streams"
_TUNING = kafka_streams_build.SOURCES / "streams.properties"
_CLOSED = "closed in order"
# Join.java gives Streams 30 s.
_STOP_S = 45.0
_END_S = 5.0
# Of an option of ours: what follows is a property of Kafka Streams.
_PREFIX = "streams."


def properties(work: Work) -> dict[str, str]:
    """The run's own settings, which are laid over ``streams.properties``.

    ``work.options`` may hold more, as ``streams.<property>``.
    """
    more = {
        name.removeprefix(_PREFIX): value
        for name, value in work.options.items()
        if name.startswith(_PREFIX)
    }
    return {
        "bootstrap.servers": work.brokers,
        "application.id": work.name,
        # A member of this name that comes back gets its partitions at once. Without a name, the
        # group waits 45 s for the one that stopped: Streams does not sign off.
        "group.instance.id": work.name,
        "state.dir": str(work.place / "state"),
        "num.stream.threads": str(work.parallelism),
        **more,
    }


class StreamsRun(Run):
    """One JVM."""

    def __init__(self, mode: str, work: Work) -> None:
        self._state = work.place / "state"
        self._log = work.place / "streams.log"
        self._processes = ProcessSet(work.place)
        settings = work.place / "streams.properties"
        own = "".join(f"{name}={value}\n" for name, value in properties(work).items())
        settings.write_text(f"{_TUNING.read_text()}\n{own}")
        # What an earlier run wrote says nothing about this one.
        self._from = self._log.stat().st_size if self._log.exists() else 0
        # Tried beside G1, the default: less CPU for each event, and less memory.
        command = ["java", "-XX:+UseParallelGC", f"-Xmx{work.options.get('heap', '1g')}"]
        command += ["-cp", kafka_streams_build.CLASS_PATH, "tablegate.bench.Join", mode]
        command += [str(settings), work.stream, work.table, work.enriched]
        self._record = self._processes.spawn(_NAME, command, log=self._log, env={})

    def pids(self) -> list[int]:
        """The JVM's."""
        return [self._record.pid] if self._processes.alive(_NAME) else []

    def problem(self) -> str | None:
        """Join.java ends when Streams gives up."""
        if self._processes.alive(_NAME):
            return None
        return f"the JVM has ended; its log ends with\n{tail(self._log)}"

    def state_bytes(self) -> int:
        """RocksDB's files; what is in its write buffers comes to that."""
        return sum(_blocks(path) for path in self._state.rglob("*"))

    def stop(self) -> None:
        """SIGTERM, on which Streams commits, flushes its stores and writes their checkpoints."""
        if problem := self.problem():
            raise RuntimeError(problem)
        self._processes.stop(deadline_s=_STOP_S)
        with self._log.open() as log:
            log.seek(self._from)
            if _CLOSED not in log.read():
                raise RuntimeError(f"Streams did not close; its log ends with\n{tail(self._log)}")

    def close(self) -> None:
        """SIGTERM, and SIGKILL soon after: nobody needs what it would still write."""
        self._processes.stop(deadline_s=_END_S)


class _Streams(System):
    mode: ClassVar[str]
    restarts = True

    def versions(self) -> dict[str, str]:
        """Of Kafka Streams and RocksDB."""
        return kafka_streams_build.versions()

    def prepare(self) -> None:
        """With Maven, into ``build/bench/kafka-streams``."""
        kafka_streams_build.build()

    def start(self, work: Work) -> StreamsRun:
        """With the state of an earlier run of the same Work, if there is any."""
        work.place.mkdir(parents=True, exist_ok=True)
        try:
            return StreamsRun(self.mode, work)
        except StackError as error:
            raise RuntimeError(str(error)) from error


class KafkaStreamsKTable(_Streams):
    """The stream is repartitioned by ``id`` and joins the partition of the table beside it.

    Not gated. Streams takes the records of a task's partitions by their timestamps, as far as it
    has fetched them, so a row that is newer than its event comes too late.
    """

    name = "kafka-streams-ktable"
    about = "Kafka Streams: selectKey, leftJoin with a KTable; RocksDB, at least once"
    gated = False
    mode = "ktable"


class KafkaStreamsGlobal(_Streams):
    """Every instance has the whole table, and reads it to its end before it takes an event.

    Gated at a start; later rows are applied by a thread of their own, as they come.
    """

    name = "kafka-streams-global"
    about = "Kafka Streams: leftJoin with a GlobalKTable; RocksDB, at least once"
    gated = True
    mode = "global"


def _blocks(path: Path) -> int:
    # RocksDB deletes files while we look.
    with suppress(FileNotFoundError):
        return path.lstat().st_blocks * 512
    return 0
