"""`tablegate plan`: what a start will cost, before it is made."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from jobs.settings import load
from ops.plan import rates, screen
from ops.plan.gather import WINDOW_MIN, Asked, gather
from ops.plan.model import make


def register(app: typer.Typer) -> None:
    """Add the command to ``app``."""
    app.command()(plan)


def plan(
    *,
    rows: Annotated[float | None, typer.Option(help="Records of the table topic to read.")] = None,
    delta_rows: Annotated[
        float | None,
        typer.Option(help="For a restart: records written to the table while it was down."),
    ] = None,
    row_bytes: Annotated[float | None, typer.Option(help="Bytes of a row, key and value.")] = None,
    events_per_second: Annotated[
        float | None, typer.Option(help="Events that arrive; best those of the busiest hour.")
    ] = None,
    event_bytes: Annotated[
        float | None, typer.Option(help="Bytes of an event, key, value and headers.")
    ] = None,
    load_rate: Annotated[
        float | None, typer.Option(help="Rows/s of the load, which is one subtask's work.")
    ] = None,
    join_rate: Annotated[
        float | None, typer.Option(help="Events/s that one subtask joins, the gate being open.")
    ] = None,
    release_rate: Annotated[
        float | None, typer.Option(help="Events/s that one subtask releases from its state.")
    ] = None,
    rates_file: Annotated[
        Path | None,
        typer.Option("--rates", help="Rates as bench.catch_up or bench.load wrote them."),
    ] = None,
    config: Annotated[
        Path | None, typer.Option(help="The job's TOML file: asks its topics what is not given.")
    ] = None,
    overrides: Annotated[
        list[str] | None, typer.Option("--set", help="dotted.key=value; may be repeated.")
    ] = None,
    parallelism: Annotated[
        float | None, typer.Option(help="Subtasks of the join; the table's load stays with one.")
    ] = None,
    backlog_events: Annotated[
        float | None, typer.Option(help="Events that wait in the topic before the hold.")
    ] = None,
    start_seconds: Annotated[
        float | None,
        typer.Option(help="Seconds from the old job's stop to the load: down time and start."),
    ] = None,
    catch_up_within: Annotated[
        float | None, typer.Option(help="Seconds that the catch-up may take; 600 by default.")
    ] = None,
    pause_stream: Annotated[
        bool | None, typer.Option(help="gate.pause_stream; the config's, or on, by default.")
    ] = None,
    window: Annotated[
        float, typer.Option(help="Minutes over which the stream's rate is measured.")
    ] = WINDOW_MIN,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Tell load time, what waits meanwhile, and how long the job is behind afterwards.

    And what a job without a gate would do in that time. Each number says whether it is given,
    measured or assumed.
    """
    asked = Asked(
        rows,
        delta_rows,
        row_bytes,
        events_per_second,
        event_bytes,
        load_rate,
        join_rate,
        release_rate,
        parallelism,
        backlog_events,
        start_seconds,
        catch_up_within,
        pause_stream,
        window,
    )
    measured = rates.read(rates_file) if rates_file else {}
    settings = load(config, overrides or []) if config else None
    made = make(gather(asked, measured, settings, str(config)))
    if as_json:
        typer.echo(json.dumps(screen.as_json(made)))
    else:
        typer.echo(screen.page(made))
