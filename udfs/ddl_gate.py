"""The gate as a function for a table's DDL: the place of a record in, the watermark behind it out.

For SQL sessions that know nothing of this project; ``tablegate sql-ddl --gated-table`` prints the
DDL and writes the module that holds the rules. What it refuses, and why: decision 18.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from pyflink.table import DataTypes, FunctionContext
from pyflink.table.udf import ScalarFunction, UserDefinedScalarFunctionWrapper, udf

# The first for other jobs, see udfs.join.
from udfs import code, join  # noqa: F401
from udfs.core.cold_start import ColdStart
from udfs.core.errors import TargetError
from udfs.core.gate import CLOSED_MS, FAR_FUTURE_MS, Target
from udfs.job_manager import restored_from
from udfs.targets import TargetResolver

log = logging.getLogger(__name__)

_ASK_AGAIN_EVERY_S = 0.5
# Flink kills a TaskManager that has not let go of a cancelled task after 180 s, and nothing
# interrupts Python.
_LONGEST_WAIT_S = 120.0
# Imported by a worker process of PyFlink, and not in a TaskManager.
_WORKER_PROCESS = "apache_beam.runners.worker.sdk_worker"


@dataclass(frozen=True)
class DdlGateRules:
    """What the gate is told when its DDL is printed."""

    client: Mapping[str, str] = field(repr=False)
    """librdkafka configuration. Holds secrets."""
    topic: str
    isolation_level: str
    rest_url: str
    """Where the JobManager answers."""
    topic_id: str
    transaction_wait_ms: int = 60_000
    """How long an attempt waits for a transaction that was open when it began."""


class _InTaskManager(ScalarFunction):
    def __init__(self) -> None:
        # Taken on the client, compared on the worker.
        self._code = code.LOADED

    def is_deterministic(self) -> bool:
        # No call may be saved, moved or computed beforehand.
        return False

    def open(self, function_context: FunctionContext) -> None:
        code.require_same("Tablegate's workers (package udfs)", self._code, code.LOADED)


class DdlGate(_InTaskManager):
    """``table_gate(p, o)``: the watermark behind a record, BIGINT, in epoch milliseconds.

    CLOSED_MS while the table is short, FAR_FUTURE_MS from the record on that completes it. The
    targets are taken in ``open``, on every attempt.

    Raises TargetError, which fails the attempt, where it could not open or not vouch for what it
    opens on.
    """

    def __init__(self, rules: DdlGateRules) -> None:
        super().__init__()
        self._rules = rules

    def open(self, function_context: FunctionContext) -> None:
        super().open(function_context)
        self._began = time.monotonic()
        self._open = False
        _require_thread_mode()
        self._require_one_subtask(function_context)
        rules = self._rules
        self._require_fresh(restored_from(rules.rest_url, function_context.get_task_name()))
        with TargetResolver(rules.client, rules.topic, rules.isolation_level) as resolver:
            self._require_same_topic(resolver.topic().topic_id)
            targets = self._settled(resolver)
            first = resolver.first_readable(targets)
        self._cold = ColdStart(rules.topic, targets, first)
        log.info("gate of %s: targets of this attempt %s", rules.topic, targets)

    def eval(self, partition: int, offset: int) -> int:
        if self._open:
            return FAR_FUTURE_MS
        if not self._cold.take(partition, offset):
            return CLOSED_MS
        self._open = True
        took_ms = (time.monotonic() - self._began) * 1000
        log.info("gate of %s: open after %d ms", self._rules.topic, took_ms)
        return FAR_FUTURE_MS

    def _require_one_subtask(self, function_context: FunctionContext) -> None:
        subtasks = function_context.get_number_of_parallel_subtasks()
        if subtasks != 1:
            raise TargetError(
                f"The gate of {self._rules.topic} runs as one of {subtasks} subtasks: each sees "
                "some records, and none knows when all have been read.",
                "SET 'parallelism.default' = '1' in the session. scan.parallelism alone does not "
                "help: it spreads the records behind the source.",
            )

    def _require_fresh(self, restored: str) -> None:
        if restored:
            raise TargetError(
                f"The query with the gate of {self._rules.topic} goes on from {restored}. What was "
                "read before is in Flink's state and unknown to a gate in DDL: on a quiet table it "
                "would never open.",
                "Start it without a savepoint, and leave checkpoints off as the printed DDL does; "
                "or use jobs/enrich_sql.py, whose gate knows what was read.",
            )

    def _require_same_topic(self, now: str) -> None:
        if now != self._rules.topic_id:
            raise TargetError(
                f"Topic {self._rules.topic} has the id {now}, and had {self._rules.topic_id} when "
                "the DDL was printed: it was deleted and created again, or is on other brokers.",
                "Print the DDL again.",
            )

    def _settled(self, resolver: TargetResolver) -> dict[int, Target]:
        """The targets, once no transaction is open that was when they were asked for."""
        targets = resolver.resolve()
        wait_s = min(self._rules.transaction_wait_ms / 1000, _LONGEST_WAIT_S)
        deadline = time.monotonic() + wait_s
        while waiting := {p: target for p, target in targets.items() if target.waiting}:
            if time.monotonic() > deadline:
                raise TargetError(
                    f"A transaction on {self._rules.topic}{sorted(waiting)} is unfinished after "
                    f"{wait_s:g} s, and whether its rows count cannot be known before it ends.",
                    "Find it with kafka-transactions.sh find-hanging, and finish or abort it. The "
                    "restart strategy tries again.",
                )
            time.sleep(_ASK_AGAIN_EVERY_S)
            targets |= resolver.resolve_again(waiting)
        return targets


class EventMoment(_InTaskManager):
    """``event_moment(o)``: the time of the call, BIGINT, in epoch milliseconds, each its own.

    Of two events in one millisecond the later would stand at a watermark that has passed, and wait
    in the join for the next event. So many events run ahead of the clock; their moments are only
    an order.
    """

    def open(self, function_context: FunctionContext) -> None:
        super().open(function_context)
        self._last = 0

    def eval(self, offset: int) -> int:
        self._last = max(self._last + 1, time.time_ns() // 1_000_000)
        return self._last


def table_gate(rules: DdlGateRules) -> UserDefinedScalarFunctionWrapper:
    """The gate, for ``CREATE FUNCTION``."""
    return udf(DdlGate(rules), result_type=DataTypes.BIGINT(), name="table_gate")


def event_moment() -> UserDefinedScalarFunctionWrapper:
    """The stream's moment, for ``CREATE FUNCTION``."""
    return udf(EventMoment(), result_type=DataTypes.BIGINT(), name="event_moment")


def _require_thread_mode() -> None:
    if _WORKER_PROCESS in sys.modules:
        raise TargetError(
            "A gate in DDL runs in a worker process here: that begins with the table's first row, "
            "so nothing would say that there is none.",
            "SET 'python.execution-mode' = 'thread' in the session.",
        )
