"""The main job: joins a stream topic with a compacted table topic, never with a half-loaded table.

    flink run -d -pyexec PYTHON -pyclientexec PYTHON -pyfs build/tablegate-udfs.zip \
        -py jobs/enrich.py --config conf/orders.toml [--set job.parallelism=2 ...]

The cluster's configuration gives checkpoints, state backend, restart strategy, Python interpreter
and execution mode (``flink-conf/`` has them with their reasons). The settings file gives everything
about the join (``docs/configuration.md``). Nothing is submitted unless the settings hold and the
topics are as they say.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from jobs.assembly import build
from jobs.entry import inspected, refusals, settings_parser
from jobs.settings import Settings, load


def main(argv: Sequence[str] | None = None, *, gated: bool = True) -> None:
    """Check, draw the graph, submit. Exits with code 2 and one clear message when refused."""
    arguments = _parser().parse_args(argv)
    with refusals():
        settings = load(arguments.config, arguments.set)
        submit(settings, gated=gated, table_only=arguments.table_only)


def submit(settings: Settings, *, gated: bool = True, table_only: bool = False) -> None:
    """Submit the job that ``settings`` describe to the cluster that ``flink run`` chose.

    ``gated`` and ``table_only`` are those of ``jobs.assembly.build``.

    Raises TablegateError when the settings or the brokers forbid it.
    """
    facts, targets = inspected(settings)
    env = build(settings, facts, targets, gated=gated, table_only=table_only)
    env.execute(settings.job.name)


def _parser() -> argparse.ArgumentParser:
    parser = settings_parser("enrich.py", __doc__)
    parser.add_argument(
        "--table-only",
        action="store_true",
        help="load the table and read no stream; the whole job can start from its savepoint",
    )
    return parser


if __name__ == "__main__":
    main()
