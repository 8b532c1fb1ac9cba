"""The queries of ``sql/audits/``, run to their end over the topics as they stand.

One job answers all of them, so that each topic is read once. An audit is a query that must return
no rows; what it returns has the columns of ``jobs.sql.findings.COLUMNS``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from pyflink.common import Configuration
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.table import EnvironmentSettings, StreamTableEnvironment

from jobs.assembly import JOB_CONFIG
from jobs.rules import join_rules
from jobs.settings import Settings
from jobs.sql import run
from jobs.sql.files import SqlError, Statement, read_text, statements
from jobs.sql.findings import Finding, chosen, intent_of, require_columns
from jobs.sql.masking import Masks
from jobs.sql.names import log_names
from udfs.sql_functions import sql_functions


def audit(
    settings: Settings, root: Path, job_name: str, *, only: Sequence[str] = (), first: int = 5
) -> list[Finding]:
    """Run the audits below ``root`` as ``job_name`` on the cluster that ``flink run`` chose.

    ``first``: rows to bring along for each. Raises SqlError when a statement cannot be taken.
    """
    rules = join_rules(settings)
    known = log_names(settings, rules)
    read = {
        name: statements(run.folder(root, name), known) for name in ("settings", "logs", "audits")
    }
    audits = chosen(read["audits"], only)
    if not audits:
        raise SqlError(root / "audits", 1, "there is no audit.", "Write one (sql/README.md).")
    masks = Masks.of(settings)
    t = _session(settings, job_name)
    run.define(t, read["settings"], masks)
    for name, function in sql_functions(rules).items():
        t.create_temporary_function(name, function)
    run.define(t, read["logs"], masks)
    counted = _run(t, audits, masks, first)
    return [
        Finding(name, intent_of(read_text(statement.file)), *counted[name])
        for name, statement in audits.items()
    ]


def _session(settings: Settings, job_name: str) -> StreamTableEnvironment:
    config = Configuration()
    # No state is kept, so no operator needs a uid.
    about = JOB_CONFIG | {"pipeline.auto-generate-uids": "true", "pipeline.name": job_name}
    for key, value in about.items():
        config.set_string(key, value)
    env = StreamExecutionEnvironment.get_execution_environment(config)
    env.set_parallelism(settings.job.parallelism)
    return StreamTableEnvironment.create(env, EnvironmentSettings.in_batch_mode())


def _run(
    t: StreamTableEnvironment,
    audits: Mapping[str, Statement],
    masks: Masks,
    first: int,
) -> dict[str, tuple[int, tuple[tuple[str, str], ...]]]:
    """For each audit the number of rows, and the first of them."""
    branches = []
    for number, statement in enumerate(audits.values()):
        (query,) = run.check(t, [statement], masks)
        require_columns(statement, query.get_schema().get_field_names())
        t.create_temporary_view(f"audit_{number}", query)
        branches.append(
            # Of one type each, or they could not be put together.
            f"SELECT {number} AS audit, CAST(source AS STRING) AS source, "
            f"CAST(problem AS STRING) AS problem FROM audit_{number}"
        )
    result = t.execute_sql(f"""
        SELECT audit, source, problem, total FROM (
          SELECT audit, source, problem,
                 COUNT(*) OVER (PARTITION BY audit) AS total,
                 ROW_NUMBER() OVER (PARTITION BY audit ORDER BY source) AS n
          FROM ({" UNION ALL ".join(branches)}))
        WHERE n <= {max(1, first)}""")
    found: dict[str, tuple[int, tuple[tuple[str, str], ...]]] = dict.fromkeys(audits, (0, ()))
    names = list(audits)
    with result.collect() as rows:
        for audit_number, source, problem, total in rows:
            _, shown = found[names[audit_number]]
            found[names[audit_number]] = (total, (*shown, (source or "", problem or ""))[:first])
    return {name: (total, tuple(sorted(shown))) for name, (total, shown) in found.items()}
