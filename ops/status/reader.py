"""Asks Flink and, where the settings are at hand, the brokers about one job."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Mapping
from typing import Any

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, TopicPartition

from jobs.clients import librdkafka_config
from jobs.preflight.admin import TIMEOUT_S, Admin
from jobs.settings import Settings
from jobs.sql.uids import DECIDED
from jobs.uids import HIT_RATE, JOIN, STREAM_SIDE, TABLE_SIDE
from ops import flink_run
from ops.cluster import Cluster, UnknownError, ask
from ops.job_status import metric_scope
from ops.status.model import BEHIND_MS, Reading
from udfs.core.errors import TablegateError
from udfs.core.gate import CLOSED_MS, OPENED_SHORT_MS, Target
from udfs.core.hitrate import COUNTED
from udfs.core.marks import STARTUP_MOMENT_MS, STEP, Known
from udfs.targets import TargetResolver

_JOB_ID = re.compile(r"[0-9a-f]{32}")
_OFFSET = re.compile(r"KafkaSourceReader\.topic\.(.+)\.partition\.(\d+)\.currentOffset$")
_COUNTERS = (
    "hits",
    "misses",
    "not_loaded_misses",
    "stale_table_misses",
    "dead_letters",
    "parked_events",
    "unparked_events",
    "late_hits",
    "held_events",
    "released_events",
    "held_bytes",
    "released_bytes",
)
_SOURCES = {operator.uid: operator.name for operator in (*STREAM_SIDE, *TABLE_SIDE)}
# What is called otherwise in the SQL variant, which has no counters of its own.
_SQL = {operator.uid: operator.name for operator in DECIDED}
_SQL_JOIN, _SQL_STREAM = _SQL["sql-join"], _SQL["sql-stream-source"]
_DURATION = re.compile(r"(\d+)\s*(ms|s|min|h)?")
_UNIT_MS = {"ms": 1, "s": 1_000, "min": 60_000, "h": 3_600_000, None: 1}
_RUNNING = frozenset({"RUNNING", "FINISHED"})
_ENDED = frozenset({"FAILED", "CANCELED", "FINISHED"})
# Names in one request: a URL has its limits, and a topic may have hundreds of partitions.
_AT_ONCE = 40
# A broker that did not answer holds up each look at the job; so it is not asked at each.
_ASK_BROKERS_AGAIN_S = 10.0
# Of each question. A probe wants an answer soon, even if it is half of one.
_PATIENCE_S = 5.0


class Brokers:
    """What the brokers say about the two topics of a job. Close it after use."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._held = contextlib.ExitStack()
        self._resolvers: list[TargetResolver] = []
        self._admin: Admin | None = None
        self._asked_in_vain = float("-inf")
        self._note = ""

    def close(self) -> None:
        """Leave the brokers."""
        self._held.close()

    def look(self) -> tuple[dict[int, Target], dict[int, Target], dict[int, int], str]:
        """Targets of table and stream, the group's offsets, and a note where one is not known."""
        if time.monotonic() - self._asked_in_vain < _ASK_BROKERS_AGAIN_S:
            return {}, {}, {}, self._note
        try:
            table, stream = (resolver.resolve() for resolver in self._connected())
            return table, stream, self._committed(stream), ""
        except TablegateError as error:
            self._asked_in_vain = time.monotonic()
            self._note = f"brokers: {error}{self._leaderless()}"
            return {}, {}, {}, self._note

    def _leaderless(self) -> str:
        """Partitions of the table that nobody can read, where the brokers tell at least that."""
        topic = self._settings.table.topic
        try:
            missing = self._resolvers[0].topic().leaderless if self._resolvers else ()
        except TablegateError:
            return ""
        return f" No leader: {', '.join(f'{topic}[{p}]' for p in missing)}." if missing else ""

    def _connected(self) -> list[TargetResolver]:
        if not self._resolvers:
            settings = self._settings
            client = librdkafka_config(settings)
            self._admin = self._held.enter_context(Admin(settings))
            self._resolvers = [
                self._held.enter_context(TargetResolver(client, side.topic, side.isolation_level))
                for side in (settings.table, settings.stream)
            ]
            for resolver in self._resolvers:
                resolver.patience_s = _PATIENCE_S
        return self._resolvers

    def _committed(self, stream: Mapping[int, Target]) -> dict[int, int]:
        assert self._admin is not None  # noqa: S101  (made by _connected, which came before)
        settings = self._settings
        return committed_offsets(
            self._admin, settings.stream_group, settings.stream.topic, list(stream)
        )


def committed_offsets(
    admin: Admin, group: str, topic: str, partitions: list[int]
) -> dict[int, int]:
    """The group's offsets of the topic, by partition; partitions without one are left out.

    Raises:
        PreflightError: the brokers do not answer. A group that may not be read counts as empty.
    """
    if not partitions:
        return {}
    request = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, p) for p in partitions])
    question = admin.client.list_consumer_group_offsets([request], request_timeout=TIMEOUT_S)[group]
    try:
        found = admin.answer(question, f"the offsets of consumer group {group}")
    except KafkaException:
        return {}
    return {tp.partition: tp.offset for tp in found.topic_partitions if tp.offset >= 0}


# ---------------------------------------------------------------------------------------- Flink


def find(cluster: Cluster, job: str) -> dict[str, Any] | None:
    """The job of that name or id, as `/jobs/overview` lists it; None when there is none.

    Of several with the name, one that has not ended; of these, the one that was started last.
    """
    listed = flink_run.jobs(cluster)
    if _JOB_ID.fullmatch(job):
        return next((entry for entry in listed if entry["jid"] == job), None)
    named = [entry for entry in listed if entry["name"] == job]
    return max(
        named, key=lambda entry: (entry["state"] not in _ENDED, entry["start-time"]), default=None
    )


class Reader:
    """Reads the numbers of one job. Close it after use.

    Args:
        cluster: where it runs.
        settings: its settings, for what the brokers know; None: Flink only.
        stream_from: the stream's offsets in the savepoint that it started from, where known. The
            group's may be those of another version that was further.
    """

    def __init__(
        self,
        cluster: Cluster,
        settings: Settings | None = None,
        stream_from: Mapping[int, int] | None = None,
    ) -> None:
        self._stream_from = dict(stream_from or {})
        self._cluster = cluster
        self._brokers = Brokers(settings) if settings else None
        self._settings = settings
        self._refresh_ms: int | None = None

    def close(self) -> None:
        """Leave the brokers."""
        if self._brokers:
            self._brokers.close()

    def read(self, job: str) -> Reading:
        """The numbers of the job of that name or id, as they are now.

        Raises:
            UnreachableError: the JobManager does not answer.
        """
        entry = find(self._cluster, job)
        at_ms = time.time_ns() // 1_000_000
        if entry is None:
            return Reading(at_ms, name=job)
        try:
            return self._read(at_ms, entry)
        except UnknownError:
            # It was removed between two questions, or is only known to the overview.
            return Reading(at_ms, entry["jid"], entry["name"], entry["state"])

    def _read(self, at_ms: int, entry: Mapping[str, Any]) -> Reading:
        job_id, state = str(entry["jid"]), str(entry["state"])
        if state in _ENDED:
            failure = flink_run.failure(self._cluster, job_id) if state == "FAILED" else ""
            return Reading(at_ms, job_id, entry["name"], state, failure=failure)
        details = ask(self._cluster, "GET", f"/jobs/{job_id}")
        vertices = details["vertices"]
        tasks = flink_run.task_states(details)
        running = bool(tasks) and tasks <= _RUNNING
        restarts = flink_run.restarts(self._cluster, job_id)
        # What it was restarted for is news only until it is up again.
        down = restarts > 0 and not running
        started = max((int(vertex["start-time"]) for vertex in vertices), default=0)
        in_sql = _vertex(vertices, _SQL_JOIN) is not None
        stream = _SQL_STREAM if in_sql else _SOURCES["stream-source"]
        table_topic, table_offsets = self._offsets(job_id, vertices, _SOURCES["table-source"])
        stream_topic, stream_offsets = self._offsets(job_id, vertices, stream)
        watermark_ms = self._watermark(job_id, vertices)
        brokers = self._brokers.look() if self._brokers else ({}, {}, {}, "")
        table_goals, stream_goals, committed, note = brokers
        settings = self._settings
        return Reading(
            at_ms=at_ms,
            job_id=job_id,
            name=str(entry["name"]),
            state=str(details["state"]),
            tasks_running=running,
            restarts=restarts,
            restored=self._restored(job_id),
            attempt_ms=int(details["now"]) - started if started > 0 else 0,
            refresh_ms=self._refresh(),
            watermark_ms=complete_until(watermark_ms, at_ms) if in_sql else watermark_ms,
            table_topic=settings.table.topic if settings else table_topic,
            stream_topic=settings.stream.topic if settings else stream_topic,
            table_offsets=table_offsets,
            stream_offsets=stream_offsets,
            stream_from={**committed, **self._stream_from},
            table_rate=self._rate(job_id, vertices),
            stream_from_end=settings is not None and settings.stream.start == "latest",
            pending=self._pending(job_id, vertices, stream),
            stream_silent=self._silent(job_id, vertices, stream),
            counters=(
                self._sql_counters(job_id, vertices) if in_sql else self._counters(job_id, vertices)
            ),
            **self._decided(job_id, vertices),
            table_goals=table_goals,
            stream_goals=stream_goals,
            notes=(note,) if note else (),
            failure=flink_run.failure(self._cluster, job_id) if down else "",
        )

    # ------------------------------------------------------------------------------ metrics

    def _metrics(
        self, job_id: str, vertices: Any, operator: str, names: list[str], aggregate: str
    ) -> dict[str, float]:
        """Those metrics of an operator that are there, over its subtasks, by name."""
        vertex = _vertex(vertices, operator)
        found: dict[str, float] = {}
        if vertex is None:
            return found
        # Flink answers with nothing at all when one of the names is not there.
        there = self._listed(job_id, vertex)
        names = [name for name in names if name in there]
        for start in range(0, len(names), _AT_ONCE):
            chosen = ",".join(names[start : start + _AT_ONCE])
            path = f"/jobs/{job_id}/vertices/{vertex}/subtasks/metrics?agg={aggregate}&get={chosen}"
            answer: Any = ask(self._cluster, "GET", path)
            found |= {entry["id"]: float(entry[aggregate]) for entry in answer}
        return found

    def _listed(self, job_id: str, vertex: str) -> list[str]:
        answer: Any = ask(
            self._cluster, "GET", f"/jobs/{job_id}/vertices/{vertex}/subtasks/metrics"
        )
        return [str(entry["id"]) for entry in answer]

    def _watermark(self, job_id: str, vertices: Any) -> int | None:
        name = f"{metric_scope(_SOURCES['table-watermark'])}.currentOutputWatermark"
        # A watermark has more digits than a float, and its vertex one subtask.
        vertex = _vertex(vertices, _SOURCES["table-watermark"])
        if vertex is None:
            return None
        path = f"/jobs/{job_id}/vertices/{vertex}/metrics?get=0.{name}"
        answer: Any = ask(self._cluster, "GET", path)
        return int(answer[0]["value"]) if answer else None

    def _offsets(self, job_id: str, vertices: Any, operator: str) -> tuple[str, dict[int, int]]:
        vertex = _vertex(vertices, operator)
        if vertex is None:
            return "", {}
        names = [name for name in self._listed(job_id, vertex) if _OFFSET.search(name)]
        topic, offsets = "", {}
        for name, value in self._metrics(job_id, vertices, operator, names, "max").items():
            match = _OFFSET.search(name)
            if match:
                topic, offsets[int(match[2])] = match[1], int(value)
        return topic, offsets

    def _rate(self, job_id: str, vertices: Any) -> float | None:
        operator = _SOURCES["table-source"]
        name = f"Source__{metric_scope(operator)}.numRecordsOutPerSecond"
        return self._metrics(job_id, vertices, operator, [name], "sum").get(name)

    def _pending(self, job_id: str, vertices: Any, operator: str) -> int | None:
        name = f"Source__{metric_scope(operator)}.pendingRecords"
        found = self._metrics(job_id, vertices, operator, [name], "sum").get(name)
        return None if found is None else int(found)

    def _silent(self, job_id: str, vertices: Any, operator: str) -> bool:
        scope = f"Source__{metric_scope(operator)}.KafkaSourceReader.KafkaConsumer"
        fetched, read = f"{scope}.fetch-total", f"{scope}.records-consumed-total"
        found = self._metrics(job_id, vertices, operator, [fetched], "min")
        found |= self._metrics(job_id, vertices, operator, [read], "sum")
        return found.get(fetched, 0) > 0 and found.get(read) == 0

    def _counters(self, job_id: str, vertices: Any) -> dict[str, int]:
        scope = metric_scope(JOIN.name)
        names = [f"{scope}.{counter}" for counter in _COUNTERS]
        found = self._metrics(job_id, vertices, JOIN.name, names, "sum")
        return {name.removeprefix(f"{scope}."): int(value) for name, value in found.items()}

    def _sql_counters(self, job_id: str, vertices: Any) -> dict[str, int]:
        """What the planner's join has held: events read and events let through, of this attempt.

        Those that were restored from state are only in the second.
        """
        read = f"Source__{metric_scope(_SQL_STREAM)}.numRecordsOut"
        through = f"{metric_scope(_SQL_JOIN)}.numRecordsOut"
        found = self._metrics(job_id, vertices, _SQL_STREAM, [read], "sum")
        found |= self._metrics(job_id, vertices, _SQL_JOIN, [through], "sum")
        if len(found) < len((read, through)):
            return {}
        return {"held_events": int(found[read]), "released_events": int(found[through])}

    def _decided(self, job_id: str, vertices: Any) -> dict[str, Any]:
        scope = metric_scope(HIT_RATE.name)
        names = {f"{scope}.verdict.{what}.decided": what.value for what in COUNTED}
        rate = f"{scope}.hit_rate_bp"
        found = self._metrics(job_id, vertices, HIT_RATE.name, [*names, rate], "sum")
        bp = int(found.pop(rate, -1))
        return {
            "decided": {names[name]: int(value) for name, value in found.items()},
            "last_rate_bp": bp if bp >= 0 else None,
        }

    def _restored(self, job_id: str) -> bool:
        latest = ask(self._cluster, "GET", f"/jobs/{job_id}/checkpoints")["latest"]
        return latest["restored"] is not None

    def _refresh(self) -> int:
        if self._refresh_ms is None:
            listed: Any = ask(self._cluster, "GET", "/jobmanager/config")
            told = {entry["key"]: entry["value"] for entry in listed}
            self._refresh_ms = duration_ms(told.get("metrics.fetcher.update-interval", "10 s"))
        return self._refresh_ms


def complete_until(mark_ms: int | None, now_ms: int) -> int | None:
    """The SQL variant's watermark as the DataStream job would send it; see ``udfs.core.marks``.

    The mark is a clock's time, or one of the first attempt's announcements, and its remainder says
    what is known about the table; until when it is complete it only says in continuous mode.
    """
    if mark_ms is None or mark_ms <= CLOSED_MS:
        return mark_ms
    known = Known(mark_ms % STEP) if mark_ms % STEP in set(Known) else Known.LOADED
    if known is Known.SHORT:
        return OPENED_SHORT_MS
    if known is Known.STALE:
        return BEHIND_MS
    return mark_ms if mark_ms > STARTUP_MOMENT_MS else now_ms


def duration_ms(text: str) -> int:
    """Milliseconds of a duration as Flink's configuration writes it: ``500 ms``, ``10 s``."""
    match = _DURATION.match(text.strip())
    return int(match[1]) * _UNIT_MS.get(match[2], 1) if match else 0


def _vertex(vertices: Any, operator: str) -> str | None:
    # A vertex is a chain of operators, its name their names joined by arrows.
    return next((str(v["id"]) for v in vertices if operator in v["name"]), None)
