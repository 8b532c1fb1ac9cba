"""What the entry points share: the command line, the refusal, and what is asked before a graph."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from jobs.clients import librdkafka_config
from jobs.preflight import inspect
from jobs.preflight.facts import ClusterFacts
from jobs.settings import Settings, load_merge
from udfs.core.errors import TablegateError
from udfs.core.gate import Target
from udfs.targets import TargetResolver

_EXIT_REFUSED = 2


def settings_parser(
    prog: str, doc: str, example: str = "job.parallelism=2"
) -> argparse.ArgumentParser:
    """A parser with ``--config`` and ``--set``; ``doc`` is the module's own."""
    parser = argparse.ArgumentParser(prog=prog, description=doc.partition("\n")[0])
    parser.add_argument("--config", type=Path, required=True, help="settings file (TOML)")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help=f"override one setting, e.g. --set {example}; may be given several times",
    )
    return parser


@contextmanager
def refusals(undone: str = "submitted") -> Iterator[None]:
    """Turn a TablegateError into one clear message and exit code 2; nothing was ``undone``."""
    try:
        yield
    except TablegateError as error:
        # `flink run` prints a Java stack trace behind this, which says nothing more.
        print(f"tablegate: refused, nothing was {undone}.\n{error}", file=sys.stderr, flush=True)
        sys.exit(_EXIT_REFUSED)


def inspected(settings: Settings) -> tuple[ClusterFacts, Mapping[int, Target]]:
    """What the brokers say of the topics, and the table's targets of now; prints the settings.

    Raises TablegateError when the settings or the brokers forbid the job.
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
        return facts, resolver.resolve()
