"""From settings and SQL files to a job graph.

The gate's pipeline is the DataStream job's. Behind it everything is SQL, with two seams at which
the planner's work is fixed as a stream: ``table_records`` behind the gate, and ``decided_events``
behind the join. They give the operators that hold the join's state a uid, whatever is written in
the files; and each query reads the one join, where the planner by itself would make another join,
with another copy of the table, for each query that needs other columns.
"""

from __future__ import annotations

import hashlib
import itertools
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from pyflink.common import Configuration
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.table import DataTypes, Schema, StreamTableEnvironment

from jobs import kafka_tables, outputs
from jobs.assembly import JOB_CONFIG, stats_output, ticked_partitions
from jobs.clients import java_properties
from jobs.hit_rate import counted
from jobs.preflight.facts import ClusterFacts
from jobs.rules import gate_rules, identity, join_rules
from jobs.seams import as_stream
from jobs.settings import Settings
from jobs.shading import for_connector
from jobs.sides import TableTicks, gated_rows
from jobs.sql import run
from jobs.sql.files import Statement, statements
from jobs.sql.findings import require_columns
from jobs.sql.masking import Masks
from jobs.sql.names import names
from jobs.sql.topics import require_topics
from jobs.sql.uids import COUNTED, DECIDED, TABLE_RECORDS
from jobs.wiring import adopt
from udfs.core.gate import Target
from udfs.core.hitrate import Later
from udfs.core.rows import TableFormat
from udfs.join_rules import JoinRules
from udfs.sql_functions import sql_functions
from udfs.sql_gate import sql_gate_function

DEFINED = ("settings", "tables", "logs", "join", "views")
"""The folders whose statements start nothing, in the order in which they are read."""

# By `reached`, which they do not use, they stand behind the window and so beside the gate.
_READ_PLAIN = "row_problem(routed, k, v, reached) AS problem"
_READ = f"{_READ_PLAIN}, row_content(routed, k, v, reached) AS content"
_PLAIN_ROW = "CASE WHEN problem IS NULL THEN `value` END"
_NUMBER = re.compile(r"\[\d+\]")
# The planner counts nodes through the session, in brackets before or behind what they do.
_COUNT = re.compile(r"^\[\d+\]:|\[\d+\]$")
_SEAM = "DataStreamToTable"
_QUERY = "query-"
_KEEPS_STATE = re.compile(
    r"Aggregate|Join|Rank|Deduplicate|Over|Normalize|Materialize|Match|Sort|Limit"
)


class Defined(NamedTuple):
    """A table environment in which the gated tables exist. Nothing of it runs."""

    env: StreamExecutionEnvironment
    t: StreamTableEnvironment
    masks: Masks
    """What must not be shown of whatever Flink says."""


def build(
    settings: Settings, facts: ClusterFacts, targets: Mapping[int, Target], root: Path
) -> StreamExecutionEnvironment:
    """The job's graph, ready to execute, of the SQL files below ``root``.

    The other arguments are those of ``jobs.assembly.build``.

    Raises SqlError when a statement cannot be taken, and RuntimeError when the planner makes other
    operators than ``jobs.sql.uids`` names.
    """
    known = known_names(settings, facts)
    # All of them first, so that a name that is missing shows before the planner takes its time.
    more = {name: statements(run.folder(root, name), known) for name in ("inserts", "audits")}
    env, t, masks = define(settings, facts, targets, root, known)
    for audit, query in zip(more["audits"], run.check(t, more["audits"], masks), strict=True):
        require_columns(audit, query.get_schema().get_field_names())
    _count(env, t, settings)
    _write(env, t, more["inserts"], masks)
    return env


def define(
    settings: Settings,
    facts: ClusterFacts,
    targets: Mapping[int, Target],
    root: Path,
    known: Mapping[str, str],
) -> Defined:
    """Settings, tables, the join and the views of the SQL files below ``root``.

    ``known`` are the names that the files may ask for, see ``known_names``. Raises as ``build``.
    """
    read = {name: statements(run.folder(root, name), known) for name in DEFINED}
    env, t = _environment(settings)
    masks = Masks.of(settings)
    run.define(t, [*read["settings"], *read["tables"]], masks)
    # Behind it: what a statement is, Flink's parser knows.
    require_topics(settings, read["tables"])
    _register_table(t, settings, facts, targets, _rules(settings, facts))
    run.define(t, [*read["logs"], *read["join"]], masks)
    _register_decided(t)
    run.define(t, read["views"], masks)
    return Defined(env, t, masks)


def known_names(settings: Settings, facts: ClusterFacts) -> dict[str, str]:
    """What the files may ask for by ``${NAME}``; holds the clients' passwords."""
    return names(settings, facts, _rules(settings, facts))


def _rules(settings: Settings, facts: ClusterFacts) -> JoinRules:
    enriched, *_ = facts.outputs
    return join_rules(settings, enriched.max_message_bytes)


def _environment(settings: Settings) -> tuple[StreamExecutionEnvironment, StreamTableEnvironment]:
    config = Configuration()
    for key, value in (JOB_CONFIG | {"pipeline.name": settings.job.name}).items():
        config.set_string(key, value)
    env = StreamExecutionEnvironment.get_execution_environment(config)
    env.set_parallelism(settings.job.parallelism)
    env.set_max_parallelism(settings.job.max_parallelism)
    return env, StreamTableEnvironment.create(env)


def _register_table(
    t: StreamTableEnvironment,
    settings: Settings,
    facts: ClusterFacts,
    targets: Mapping[int, Target],
    rules: JoinRules,
) -> None:
    """``table_records``: what was read of the table, behind the gate and its watermark."""
    table, client = settings.table, for_connector(java_properties(settings))
    loaded_at = {p: goal for p, target in targets.items() if (goal := target.goal) is not None}
    t.create_temporary_table(
        "table_topic",
        kafka_tables.table_source(
            table.topic,
            client,
            table.isolation_level,
            loaded_at,
            pause=settings.gate.pause_stream,
        ),
    )
    t.create_temporary_table("tick_seed", kafka_tables.tick_seed())
    for name, function in sql_functions(rules).items():
        t.create_temporary_function(name, function)
    ticked = ticked_partitions(len(targets))
    # A record of plain JSON is its row: it need not come back from Python.
    plain = rules.rows.table_format is TableFormat.JSON
    gated = gated_rows(
        t,
        "table_topic",
        TableTicks("tick_seed", settings.gate.tick_interval_ms, ticked),
        rules.rows,
        sql_gate_function(gate_rules(settings, facts, ticked)),
        identity(settings, facts).stamp,
        _READ_PLAIN if plain else _READ,
    )
    records = t.sql_query(f"""
        SELECT COALESCE(routed_key,
                        CONCAT('no key: ', CAST(MOD(`offset`, 1024) AS STRING))) AS join_key,
               {_PLAIN_ROW if plain else "content"} AS content, problem, key AS record_key,
               `value` AS record, headers, timestamp_ms AS ts_ms, `partition` AS p, `offset` AS o
        FROM {gated} WHERE `offset` IS NOT NULL""")
    stream = as_stream(t, records)
    adopt(stream._j_data_stream.getTransformation(), TABLE_RECORDS, parallelism=1)
    raw_type = DataTypes.BYTES()
    schema = (
        Schema.new_builder()
        .column("join_key", DataTypes.STRING().not_null())
        .column("content", raw_type)
        .column("problem", DataTypes.STRING())
        .column("record_key", raw_type)
        .column("record", raw_type)
        .column("headers", DataTypes.MAP(DataTypes.STRING(), raw_type))
        .column("ts_ms", DataTypes.BIGINT())
        .column("p", DataTypes.INT())
        .column("o", DataTypes.BIGINT())
        # One time for all, so that a newer row takes the place of the one before.
        .column_by_expression("rt", "TO_TIMESTAMP_LTZ(0, 3)")
        .watermark("rt", "SOURCE_WATERMARK()")
        .primary_key("join_key")
        .build()
    )
    t.create_temporary_view("table_records", stream, schema)


def _register_decided(t: StreamTableEnvironment) -> None:
    """``decided_events``: every event that was let through the gate, with its verdict."""
    text, raw, long = DataTypes.STRING(), DataTypes.BYTES(), DataTypes.BIGINT()
    headers = DataTypes.MAP(text, raw)
    columns = {
        "verdict": text,
        "routed_key": text,
        "record_key": raw,
        "event": raw,
        "headers": headers,
        "ts_ms": long,
        "p": DataTypes.INT(),
        "o": long,
        "seen_ms": long,
        "enriched": raw,
        "enriched_headers": headers,
        "problem": text,
    }
    stream = as_stream(t, t.sql_query(f"SELECT {', '.join(columns)} FROM judged_events"))
    adopt(stream._j_data_stream.getTransformation(), DECIDED)
    schema = Schema.new_builder()
    for name, column in columns.items():
        # Nullable whatever the planner knows: state of queries that somebody wrote has these types.
        schema.column(name, column)
    t.create_temporary_view("decided_events", stream, schema.build())


def _count(env: StreamExecutionEnvironment, t: StreamTableEnvironment, settings: Settings) -> None:
    """The hit rate of the DataStream job, for its metrics and for ``stats.topic``."""
    parts = (
        "SELECT verdict AS counted FROM decided_events",
        f"SELECT '{Later.BAD_ROW}' AS counted FROM table_records WHERE problem IS NOT NULL",
    )
    told = counted(t, parts, COUNTED, settings.job.name, settings.stats.window_ms)
    client = for_connector(java_properties(settings))
    outputs.write(env, t, [stats_output(t, settings, client, told)])


def _write(
    env: StreamExecutionEnvironment,
    t: StreamTableEnvironment,
    inserts: list[Statement],
    masks: Masks,
) -> None:
    run.attach(t, inserts, masks)
    taken: set[str] = set()
    for sink in env._j_stream_execution_environment.getTransformations():
        _name(sink, taken)


def _name(sink: Any, taken: set[str]) -> None:
    """Uids for the operators of a query that somebody wrote; ``taken`` are those given before.

    Made of the table written to, and for an operator with state of what it does and all that is
    done before it: a query keeps the state of what it still does, and is refused by Flink where it
    does something else, rather than given state that means something else. (By itself Flink did not
    refuse a count for a maximum.) Other operators are told apart by their place.
    """
    table = _NUMBER.split(sink.getName())[0]
    for number, one in enumerate(_unnamed(sink, set())):
        kind = _NUMBER.split(one.getName())[0]
        uid = f"{_QUERY}{table}-{number}-{kind}"
        if _KEEPS_STATE.search(kind):
            uid = _distinct(f"{_QUERY}{table}-{kind}-{_digest(one)}", taken)
        elif kind == _SEAM:
            # Shared by the queries that read it, of which each could be the first.
            shared = f"{_QUERY}reads-{one.getInputs()[0].getUid()}"
            uid = uid if shared in taken else shared
        taken.add(uid)
        one.setUid(uid)


def _digest(operator: Any) -> str:
    return hashlib.sha256(_does(operator, {}).encode()).hexdigest()[:8]


def _does(one: Any, known: dict[int, str]) -> str:
    """What an operator does with what it reads, up to the operators that are the job's own."""
    number = one.getId()
    if number not in known:
        uid = one.getUid()
        if uid is not None and not uid.startswith(_QUERY):
            known[number] = uid
        elif one.getName().startswith(_SEAM):
            # Its own description has a number, and columns that the query may not read.
            known[number] = _does(one.getInputs()[0], known)
        else:
            reads = [_does(source, known) for source in one.getInputs()]
            known[number] = (
                f"{_COUNT.sub('', one.getDescription() or one.getName())} of ({', '.join(reads)})"
            )
    return known[number]


def _distinct(uid: str, taken: set[str]) -> str:
    """Two operators of a query may do the same, one behind the other."""
    again = (f"{uid}-{number}" for number in itertools.count(2))
    return next(one for one in itertools.chain([uid], again) if one not in taken)


def _unnamed(transformation: Any, seen: set[int]) -> Iterator[Any]:
    if transformation.getId() in seen:
        return
    seen.add(transformation.getId())
    if transformation.getUid() is None:
        yield transformation
    for source in transformation.getInputs():
        yield from _unnamed(source, seen)
