"""The hit rate's side of the graph: what the join gives out, counted in the JVM, told by Python."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pyflink.common import Types
from pyflink.datastream import DataStream
from pyflink.table import StreamTableEnvironment

from jobs.sides import keyed
from jobs.topology import Joined
from jobs.uids import HIT_RATE, VERDICT_COUNTS, VERDICT_FIELDS, Operator
from jobs.wiring import adopt
from udfs.core.model import Verdict
from udfs.hit_rate import HitRate
from udfs.records import output_type


def hit_rate(t: StreamTableEnvironment, joined: Joined, job: str, window_ms: int) -> DataStream:
    """Counts by verdict of all that leaves the join, a record for each window of ``window_ms``."""
    parts = [
        f"SELECT COALESCE(counted, '{Verdict.HIT}') AS counted FROM {t.from_data_stream(stream)}"
        for stream in joined
    ]
    return counted(t, parts, VERDICT_FIELDS, job, window_ms)


def counted(
    t: StreamTableEnvironment,
    parts: Iterable[str],
    fields: Sequence[Operator],
    job: str,
    window_ms: int,
) -> DataStream:
    """The same of queries whose one column ``counted`` says what is counted, "" what is not.

    ``fields`` are the operators from there upstream.
    """
    united = " UNION ALL ".join(parts)
    decided = t.sql_query(f"SELECT counted, PROCTIME() AS pt FROM ({united}) WHERE counted <> ''")
    t.create_temporary_view("decided", decided)
    # Seconds, whatever the windows are: what is counted reaches the metrics soon, and the length of
    # a window may change with a savepoint.
    counts = t.sql_query("""
        SELECT 'all', ROW(counted, n) FROM (
          SELECT counted, COUNT(*) AS n
          FROM TABLE(TUMBLE(TABLE decided, DESCRIPTOR(pt), INTERVAL '1' SECOND))
          GROUP BY window_start, window_end, counted)""")
    of = Types.ROW([Types.STRING(), Types.LONG()])
    side = t.to_append_stream(counts, Types.ROW([Types.STRING(), of]))
    # One subtask, as it has one key; what is done for each record stays where the record is.
    adopt(side._j_data_stream.getTransformation(), VERDICT_COUNTS, parallelism=1, free=fields)
    told = keyed(side, of).process(HitRate(job, window_ms), output_type())
    told.set_parallelism(1).set_max_parallelism(1)
    return told.uid(HIT_RATE.uid).name(HIT_RATE.name)
