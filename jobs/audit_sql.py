"""Run the audits of the SQL folder over a job's topics, to their end, and print what they found.

    flink run -pyexec PYTHON -pyclientexec PYTHON -pyfs build/tablegate-udfs.zip \
        -py jobs/audit_sql.py --config conf/orders.toml --sql sql

`tablegate audit` runs it and says it for people. Reads topics, writes none; any job's outputs can
be audited, whether it is ``jobs/enrich.py`` or ``jobs/enrich_sql.py`` that writes them.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from jobs.entry import refusals, settings_parser
from jobs.settings import load
from jobs.sql.audits import audit
from jobs.sql.topics import require_logs


def main(argv: Sequence[str] | None = None) -> None:
    """Run them and print a line for each. Exits with 2 and one clear message when refused."""
    arguments = _parser().parse_args(argv)
    with refusals("run"):
        settings = load(arguments.config, arguments.set)
        require_logs(settings)
        name = arguments.name or f"audit of {settings.job.name}"
        found = audit(settings, arguments.sql, name, only=arguments.only, first=arguments.first)
    for finding in found:
        print(finding.line(), flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = settings_parser("audit_sql.py", __doc__, "stream.topic=orders")
    parser.add_argument("--sql", type=Path, default=Path("sql"), help="folder of the SQL files")
    parser.add_argument("--name", default="", help="the job's name in Flink")
    parser.add_argument("--only", action="append", default=[], help="this audit; repeatable")
    parser.add_argument("--first", type=int, default=5, help="rows of each to tell")
    return parser


if __name__ == "__main__":
    main()
