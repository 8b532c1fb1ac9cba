"""The job of `bench.cancel_race`: a vectorised function that does nothing, and a row that fails."""

from __future__ import annotations

import sys

import pandas as pd
from pyflink.common import Configuration
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.table import DataTypes, StreamTableEnvironment
from pyflink.table.udf import udf


def _same(n: pd.Series) -> pd.Series:
    return n


def main() -> None:
    """Submit it, with rows a second and milliseconds a batch as arguments."""
    rows_per_s, bundle_ms = sys.argv[1:]
    config = Configuration()
    for key, value in {
        "python.fn-execution.bundle.time": bundle_ms,
        # The failing operator is a task of its own, so that the other one is cancelled.
        "pipeline.operator-chaining.enabled": "false",
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": "1000000",
        "restart-strategy.fixed-delay.delay": "10 ms",
    }.items():
        config.set_string(key, value)
    env = StreamExecutionEnvironment.get_execution_environment(config)
    env.set_parallelism(1)
    tables = StreamTableEnvironment.create(env)
    vectorised = udf(_same, result_type=DataTypes.BIGINT(), func_type="pandas")
    tables.create_temporary_function("same", vectorised)
    tables.execute_sql(
        "CREATE TABLE numbers (n BIGINT) "
        f"WITH ('connector' = 'datagen', 'rows-per-second' = '{int(rows_per_s)}')"
    )
    tables.execute_sql("CREATE TABLE nowhere (n BIGINT, q INT) WITH ('connector' = 'blackhole')")
    # Divides by zero once in two thousand rows.
    tables.execute_sql(
        "INSERT INTO nowhere "
        "SELECT n, 1 / RAND_INTEGER(2000) FROM (SELECT same(n) AS n FROM numbers)"
    )


if __name__ == "__main__":
    main()
