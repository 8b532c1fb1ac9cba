"""The main job's SQL variant: the same gate, the same settings, the join and all behind it in SQL.

    flink run -d -pyexec PYTHON -pyclientexec PYTHON -pyfs build/tablegate-udfs.zip \
        -py jobs/enrich_sql.py --config conf/orders.toml --sql sql \
        --set miss.grace_ms=0 --set miss.retry_after=

``sql/README.md`` says what the files are and which views there are. All files make one job; nothing
is submitted unless every statement of every file holds.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from jobs.entry import inspected, refusals, settings_parser
from jobs.settings import Settings, load
from jobs.sql.assembly import build
from jobs.sql.refusals import refuse


def main(argv: Sequence[str] | None = None) -> None:
    """Check, draw the graph, submit. Exits with code 2 and one clear message when refused."""
    arguments = _parser().parse_args(argv)
    with refusals():
        submit(load(arguments.config, arguments.set), arguments.sql)


def submit(settings: Settings, root: Path) -> None:
    """Submit the job that ``settings`` and the SQL files below ``root`` describe.

    Raises TablegateError when the settings, the brokers or a statement forbid it.
    """
    refuse(settings)
    facts, targets = inspected(settings)
    build(settings, facts, targets, root).execute(settings.job.name)


def _parser() -> argparse.ArgumentParser:
    parser = settings_parser("enrich_sql.py", __doc__)
    parser.add_argument("--sql", type=Path, default=Path("sql"), help="folder of the SQL files")
    return parser


if __name__ == "__main__":
    main()
