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
import sys
from collections.abc import Sequence
from pathlib import Path

from jobs.assembly import build
from jobs.clients import librdkafka_config
from jobs.preflight import inspect
from jobs.settings import Settings, load, load_merge
from udfs.core.errors import TablegateError
from udfs.targets import TargetResolver

_EXIT_REFUSED = 2


def main(argv: Sequence[str] | None = None, *, gated: bool = True) -> None:
    """Check, draw the graph, submit. Exits with code 2 and one clear message when refused."""
    arguments = _parser().parse_args(argv)
    try:
        settings = load(arguments.config, arguments.set)
        submit(settings, gated=gated, table_only=arguments.table_only)
    except TablegateError as error:
        # `flink run` prints a Java stack trace behind this, which says nothing more.
        print(f"tablegate: refused, nothing was submitted.\n{error}", file=sys.stderr, flush=True)
        sys.exit(_EXIT_REFUSED)


def submit(settings: Settings, *, gated: bool = True, table_only: bool = False) -> None:
    """Submit the job that ``settings`` describe to the cluster that ``flink run`` chose.

    ``gated`` and ``table_only`` are those of ``jobs.assembly.build``.

    Raises TablegateError when the settings or the brokers forbid it.
    """
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
    env = build(settings, facts, targets, gated=gated, table_only=table_only)
    env.execute(settings.job.name)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="enrich.py", description=__doc__.partition("\n")[0])
    parser.add_argument("--config", type=Path, required=True, help="settings file (TOML)")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="override one setting, e.g. --set job.parallelism=2; may be given several times",
    )
    parser.add_argument(
        "--table-only",
        action="store_true",
        help="load the table and read no stream; the whole job can start from its savepoint",
    )
    return parser


if __name__ == "__main__":
    main()
