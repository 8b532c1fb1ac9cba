"""The main job's SQL variant: the same gate, the same settings, the join and all behind it in SQL.

    flink run -d -pyexec PYTHON -pyclientexec PYTHON -pyfs build/tablegate-udfs.zip \
        -py jobs/enrich_sql.py --config conf/orders.toml --sql sql \
        --set miss.grace_ms=0 --set miss.retry_after=

``sql/README.md`` says what the files are and which views there are. All files make one job; nothing
is submitted unless every statement of every file holds.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from jobs.clients import librdkafka_config
from jobs.preflight import inspect
from jobs.settings import Settings, load, load_merge
from jobs.sql.assembly import build
from jobs.sql.refusals import refuse
from udfs.core.errors import TablegateError
from udfs.targets import TargetResolver

_EXIT_REFUSED = 2


def main(argv: Sequence[str] | None = None) -> None:
    """Check, draw the graph, submit. Exits with code 2 and one clear message when refused."""
    arguments = _parser().parse_args(argv)
    try:
        submit(load(arguments.config, arguments.set), arguments.sql)
    except TablegateError as error:
        # `flink run` prints a Java stack trace behind this, which says nothing more.
        print(f"tablegate: refused, nothing was submitted.\n{error}", file=sys.stderr, flush=True)
        sys.exit(_EXIT_REFUSED)


def submit(settings: Settings, root: Path) -> None:
    """Submit the job that ``settings`` and the SQL files below ``root`` describe.

    Raises TablegateError when the settings, the brokers or a statement forbid it.
    """
    refuse(settings)
    if settings.job.merge:
        load_merge(settings.job.merge)
    facts = inspect(settings)
    print(settings.describe(), flush=True)
    for warning in facts.warnings:
        print(f"tablegate: warning: {warning}", file=sys.stderr, flush=True)
    table = settings.table
    with TargetResolver(
        librdkafka_config(settings), table.topic, table.isolation_level
    ) as resolver:
        targets = resolver.resolve()
    build(settings, facts, targets, root).execute(settings.job.name)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="enrich_sql.py", description=__doc__.partition("\n")[0])
    parser.add_argument("--config", type=Path, required=True, help="settings file (TOML)")
    parser.add_argument("--sql", type=Path, default=Path("sql"), help="folder of the SQL files")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="override one setting, e.g. --set job.parallelism=2; may be given several times",
    )
    return parser


if __name__ == "__main__":
    main()
