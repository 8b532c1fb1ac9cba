"""Uids and names of the SQL variant's operators. APPEND ONLY, for the reasons of jobs/uids.py.

A list is in the order of the walk of ``jobs.wiring.adopt``. The table's side up to the gate is the
DataStream job's, and so are its uids.
"""

from __future__ import annotations

from jobs.uids import TABLE_SIDE, Operator

TABLE_RECORDS = (
    Operator("sql-table-records", "table: out of SQL, for the join"),
    Operator("sql-table-columns", "table: drop ticks, columns for the join"),
    *TABLE_SIDE[2:],
)
"""From what the queries read of the table upstream to its Kafka source and the ticks.

Not to be given again: ``sql-table-read`` and ``sql-table-route``, which were there until rows were
read beside the gate, and held no state.
"""

DECIDED = (
    Operator("sql-decided-records", "decided: out of SQL"),
    Operator("sql-decided-columns", "decided: columns"),
    Operator("sql-verdict", "decided: verdict"),
    Operator("sql-enrich", "decided: enrich"),
    Operator("sql-joined", "decided: what the gate says"),
    # State: the table's rows, the held events, and the timers that release these.
    Operator("sql-join", "temporal join behind the gate"),
    Operator("sql-stream-route", "stream: find join key, for the join"),
    # State: offsets of the stream topic.
    Operator("sql-stream-source", "stream: read topic, for the join"),
    Operator("sql-rows", "table: rows for the join"),
    Operator("sql-rows-from-records", "table: back into SQL, for the join"),
)
"""From what the queries read of the join upstream to the stream's source and ``TABLE_RECORDS``."""

COUNTED = (
    Operator("sql-counted-decided", "decided: verdict, to count"),
    Operator("sql-counted-decided-records", "decided: into SQL, to count"),
    Operator("sql-counted-rows", "table: bad rows, to count"),
    Operator("sql-counted-rows-records", "table: into SQL, to count"),
)
"""From the counts by verdict (jobs.uids.VERDICT_COUNTS) upstream to ``DECIDED``, and to
``TABLE_RECORDS`` for the table's bad records."""
