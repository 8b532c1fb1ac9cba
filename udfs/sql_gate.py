"""The gate for the SQL variant: the same gate, whose answers are watermarks that SQL can use."""

from __future__ import annotations

import time

import pandas as pd
from pyflink.table import DataTypes, FunctionContext
from pyflink.table.udf import UserDefinedScalarFunctionWrapper, udf

from udfs.core.hold import Consistency
from udfs.core.marks import Marks
from udfs.gate import GateRules, TableGate


class SqlGate(TableGate):
    """As :class:`udfs.gate.TableGate`; the last row of a batch carries a mark of ``Marks``."""

    def __init__(self, rules: GateRules) -> None:
        super().__init__(rules)
        self._consistency = Consistency.CONTINUOUS if rules.continuous else Consistency.STARTUP
        self._max_lag_ms = rules.max_table_lag_ms

    def open(self, function_context: FunctionContext) -> None:
        super().open(function_context)
        self._marks = Marks(self._consistency, self._max_lag_ms)

    def eval(
        self,
        partition: pd.Series,
        reached: pd.Series,
        foreign: pd.Series,
        silent_s: pd.Series,
        tick: pd.Series,
    ) -> pd.Series:
        watermarks = super().eval(partition, reached, foreign, silent_s, tick)
        now_ms = time.time_ns() // 1_000_000
        watermarks.iloc[-1] = self._marks.after(int(watermarks.iloc[-1]), now_ms)
        return watermarks


def sql_gate_function(rules: GateRules) -> UserDefinedScalarFunctionWrapper:
    """The gate, ready for ``create_temporary_function``."""
    return udf(
        SqlGate(rules), result_type=DataTypes.BIGINT(), func_type="pandas", name="table_gate"
    )
