"""The SQL variant with a gate that asks nobody and is always open, for comparison only.

    flink run -d -pyfs build/tablegate-udfs.zip -py bench/systems/flink_jobs/sql_no_gate.py \
        --config FILE --sql sql --set gate.pause_stream=false --set miss.grace_ms=0 \
        --set miss.retry_after=

The graph is that of `jobs/enrich_sql.py`, ticks included: SQL joins an event when a watermark goes
on, so that something has to move it. What is gone is the gate's work: targets, offsets reached, log
ends, and the wait for them.
"""

from __future__ import annotations

import time
from unittest.mock import patch

import pandas as pd
from pyflink.table import DataTypes, FunctionContext
from pyflink.table.udf import ScalarFunction, UserDefinedScalarFunctionWrapper, udf

from jobs import enrich_sql
from jobs.sql import assembly
from udfs.core.gate import CLOSED_MS
from udfs.core.hold import Consistency
from udfs.core.marks import Marks
from udfs.gate import GateRules


class AlwaysOpen(ScalarFunction):
    """Says that the table is complete now, whatever was read of it."""

    def __init__(self, max_lag_ms: int) -> None:
        self._max_lag_ms = max_lag_ms

    def open(self, function_context: FunctionContext) -> None:
        """Begin an attempt."""
        self._marks = Marks(Consistency.STARTUP, self._max_lag_ms)

    def eval(self, partition: pd.Series, *_: pd.Series) -> pd.Series:
        """A watermark behind the last row of each batch, as the gate gives it."""
        watermarks = pd.Series(CLOSED_MS, index=range(len(partition)), dtype="int64")
        now_ms = time.time_ns() // 1_000_000
        watermarks.iloc[-1] = self._marks.after(now_ms, now_ms)
        return watermarks


def always_open(rules: GateRules) -> UserDefinedScalarFunctionWrapper:
    """In the place of ``udfs.sql_gate.sql_gate_function``."""
    return udf(
        AlwaysOpen(rules.max_table_lag_ms),
        result_type=DataTypes.BIGINT(),
        func_type="pandas",
        name="table_gate",
    )


if __name__ == "__main__":
    with patch.object(assembly, "sql_gate_function", always_open):
        enrich_sql.main()
