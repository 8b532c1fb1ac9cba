"""The gate as a vectorised Python function: progress in, watermark out."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping

import pandas as pd
from pyflink.table import DataTypes, FunctionContext
from pyflink.table.udf import ScalarFunction, UserDefinedScalarFunctionWrapper, udf

from udfs.core.errors import TargetError
from udfs.core.gate import CLOSED_MS, LOADED_MS, Gate
from udfs.targets import TargetResolver

log = logging.getLogger(__name__)

_REPORT_EVERY_S = 10.0
_ASK_AGAIN_EVERY_S = 0.5


class TableGate(ScalarFunction):
    """Says behind which row the table is loaded.

    Called with two columns, ``partition`` (INT) and ``reached`` (BIGINT, the running maximum of the
    offsets of that partition, null while nothing is known). Returns BIGINT, the watermark in epoch
    milliseconds that may follow each row: CLOSED_MS, or LOADED_MS on the last row of a batch.

    Ticks tell the progress of the partitions below ``ticked_partitions``, and the gate waits for
    the first of each. The targets are resolved in ``open``, which Flink calls on every attempt, so
    that none is older than the attempt. Raises TargetError, which fails the attempt, when they
    cannot be resolved or when the log end moved back below the restored progress.
    """

    def __init__(
        self, client: Mapping[str, str], topic: str, isolation_level: str, ticked_partitions: int
    ) -> None:
        self._client = dict(client)
        self._topic = topic
        self._isolation_level = isolation_level
        self._ticked = range(ticked_partitions)

    def open(self, function_context: FunctionContext) -> None:
        self._started = time.monotonic()
        self._opened_ms = -1
        self._reported = self._asked = self._started
        self._checked: set[int] = set()
        self._resolver = TargetResolver(self._client, self._topic, self._isolation_level)
        self._targets = self._resolver.resolve()
        self._gate = Gate(self._targets, announced=self._ticked)
        log.info("gate of %s: targets of this attempt %s", self._topic, self._targets)

    def close(self) -> None:
        # Flink also closes a function whose open failed halfway.
        if hasattr(self, "_resolver"):
            self._resolver.close()

    def eval(self, partition: pd.Series, reached: pd.Series) -> pd.Series:
        for p, offset in reached.groupby(partition).max().items():
            self._gate.reach(int(p), int(offset) if pd.notna(offset) else None)
        self._refuse_moved_back_end()
        self._ask_about_transactions()
        watermarks = pd.Series(CLOSED_MS, index=range(len(partition)), dtype="int64")
        if self._gate.is_open:
            # Only behind the last row of the batch have all rows of the batch passed.
            watermarks.iloc[-1] = LOADED_MS
        self._report()
        return watermarks

    def _refuse_moved_back_end(self) -> None:
        # Progress beyond the end of this start is usual for a table that is being written, and is
        # looked into once a partition and attempt.
        suspects = [p for p in self._targets if p not in self._checked and self._gate.overtaken(p)]
        if not suspects:
            return
        ends = self._resolver.log_ends(suspects)
        self._checked.update(suspects)
        for p in suspects:
            reached = self._gate.reached(p)
            if reached >= ends[p]:
                raise TargetError(
                    f"{self._topic}[{p}] ends at offset {ends[p]}, but the restored state has "
                    f"read it up to offset {reached}: the topic was truncated, or deleted and "
                    "recreated.",
                    "The state no longer belongs to this topic. Start without a savepoint to load "
                    "the table anew.",
                )

    def _ask_about_transactions(self) -> None:
        waiting = self._gate.waiting
        now = time.monotonic()
        if not waiting or now - self._asked < _ASK_AGAIN_EVERY_S:
            return
        self._asked = now
        for p, target in self._resolver.resolve_again(
            {p: self._targets[p] for p in waiting}
        ).items():
            if not target.waiting:
                self._targets[p] = target
                self._gate.resolve(p, target)
                log.info(
                    "gate of %s: transaction ended, target of [%d] is %s", self._topic, p, target
                )

    def _report(self) -> None:
        now = time.monotonic()
        if self._opened_ms >= 0:
            return
        if self._gate.is_open:
            self._opened_ms = int((now - self._started) * 1000)
            log.info("gate of %s: open after %d ms", self._topic, self._opened_ms)
        elif now - self._reported >= _REPORT_EVERY_S:
            self._reported = now
            log.info(
                "gate of %s: shut, %.1f %% loaded, offsets left %s, waiting for a transaction %s",
                self._topic,
                self._gate.loaded_basis_points() / 100,
                self._gate.missing(),
                list(self._gate.waiting),
            )
            unticked = [p for p in self._gate.missing() if p not in self._ticked]
            if unticked:
                log.warning(
                    "gate of %s: no tick speaks for partitions %s, which were added after the job "
                    "was submitted: each opens with its next row; submit the job again",
                    self._topic,
                    unticked,
                )


def gate_function(
    client: Mapping[str, str], topic: str, isolation_level: str, ticked_partitions: int
) -> UserDefinedScalarFunctionWrapper:
    """The gate, ready for ``create_temporary_function``."""
    return udf(
        TableGate(client, topic, isolation_level, ticked_partitions),
        result_type=DataTypes.BIGINT(),
        func_type="pandas",
        name="table_gate",
    )
