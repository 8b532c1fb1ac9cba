"""Uids and names of the SQL variant's operators. APPEND ONLY, for the reasons of jobs/uids.py.

A list is in the order of the walk of ``jobs.wiring.adopt``. The table's side up to the gate is the
DataStream job's, and so are its uids.
"""

from __future__ import annotations

from jobs.uids import TABLE_SIDE, Operator

TABLE_RECORDS = (
    Operator("sql-table-records", "table: out of SQL, for the join"),
    Operator("sql-table-read", "table: read rows"),
    *TABLE_SIDE[2:],
)
"""From what the queries read of the table upstream to its Kafka source and the ticks."""

DECIDED = (Operator("sql-decided", "decided: out of SQL"),)
"""From what the queries read of the join upstream to the stream's source and ``TABLE_RECORDS``."""
