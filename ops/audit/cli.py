"""`tablegate audit`: queries over a job's topics that must return no rows."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from jobs.settings import load
from ops.audit import screen
from ops.audit.run import audit as run_audits
from ops.cluster import choose
from ops.paths import SQL
from ops.status.cli import FlinkHome, RestUrl
from udfs.core.errors import TablegateError

_out = Console(highlight=False, soft_wrap=True)
_EXIT_FOUND = 1
_EXIT_NOT_RUN = 2
_TIMEOUT_S = 600.0


def register(app: typer.Typer) -> None:
    """Add the `audit` command to the `tablegate` command."""
    app.command()(audit)


def audit(
    *,
    config: Annotated[Path, typer.Option(help="The job's TOML file.")],
    overrides: Annotated[
        list[str] | None, typer.Option("--set", help="dotted.key=value; may be repeated.")
    ] = None,
    sql: Annotated[Path, typer.Option(help="The folder of the SQL files.")] = SQL,
    only: Annotated[
        list[str] | None, typer.Option(help="Only this audit, e.g. wrong_nulls; repeatable.")
    ] = None,
    first: Annotated[int, typer.Option(min=0, help="Show so many rows of each.")] = 5,
    timeout: Annotated[float, typer.Option(min=1, help="Seconds it may take.")] = _TIMEOUT_S,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    rest_url: RestUrl = None,
    flink_home: FlinkHome = None,
) -> None:
    """Audit what a job has written: wrong nulls, stale joins, duplicates, labels.

    Reads the job's topics from their begins to their ends of now, in a bounded Flink job that needs
    a free slot. Exit codes: 0 nothing was found, 1 something was, 2 the audits could not be run.
    """
    try:
        found = run_audits(
            choose(rest_url, flink_home),
            load(config, overrides or []),
            config=config,
            sql=sql,
            overrides=overrides or [],
            only=only or [],
            first=first,
            timeout_s=timeout,
            say=lambda text: typer.echo(text, err=True),
        )
    except TablegateError as error:
        sys.stderr.write(f"tablegate: {error}\n")
        raise typer.Exit(_EXIT_NOT_RUN) from error
    if as_json:
        typer.echo(json.dumps(screen.as_json(found)))
    else:
        screen.show(_out, found)
    if any(finding.rows for finding in found):
        raise typer.Exit(_EXIT_FOUND)
