"""The smallest job that needs all of the ground: Python threads, keyed state, checkpoints.

It counts random numbers without end, per number, in a Python function.
"""

from pyflink.common import Row, Types
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.table import StreamTableEnvironment

from tests.cluster.smoke_functions import Count


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    # One subtask in each of the test cluster's TaskManagers.
    env.set_parallelism(2)
    tables = StreamTableEnvironment.create(env)
    tables.execute_sql(
        "CREATE TABLE numbers (n BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '100',"
        " 'fields.n.kind' = 'random', 'fields.n.min' = '0', 'fields.n.max' = '9')"
    )
    source = tables.to_append_stream(tables.from_path("numbers"), Types.ROW([Types.LONG()]))
    (
        source.key_by(lambda row: row[0], key_type=Types.LONG())
        .process(Count(), output_type=Types.ROW([Types.LONG(), Types.LONG()]))
        .uid("count")
        .map(lambda row: Row(row[0], row[1]), output_type=Types.ROW([Types.LONG(), Types.LONG()]))
        .uid("pass")
        .print()
        .uid("print")
    )
    env.execute("smoke")


if __name__ == "__main__":
    main()
