"""`tablegate sql`: a shell in which the gated tables exist."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from jobs.settings import load
from jobs.sql.files import decoded, is_open, read_text, require_whole
from ops.cluster import choose
from ops.paths import ROOT
from ops.sql.errors import Exit, ShellError, exit_code
from ops.sql.opening import interact, opened
from ops.sql.screen import Plain, Screen
from ops.sql.terminal import Terminal
from udfs.core.errors import TablegateError

_SQL = ROOT / "sql"


class Start(StrEnum):
    """Where the queries read the stream from."""

    EARLIEST = "earliest"
    LATEST = "latest"
    COMMITTED = "committed"


def register(app: typer.Typer) -> None:
    """Add the command to ``app``."""
    app.command("sql")(sql)


def sql(
    *,
    config: Annotated[Path, typer.Option(help="The job's TOML file.")],
    root: Annotated[
        Path,
        typer.Option(
            "--sql", help="Folder of the SQL files; by default the project's.", show_default=False
        ),
    ] = _SQL,
    overrides: Annotated[
        list[str] | None, typer.Option("--set", help="dotted.key=value; may be repeated.")
    ] = None,
    rest_url: Annotated[
        str | None,
        typer.Option(
            "--rest",
            "--rest-url",
            help="Flink's REST address; by default FLINK_CONF_DIR's, or local.",
        ),
    ] = None,
    flink_home: Annotated[
        Path | None, typer.Option("--flink-home", help="The Flink home whose `flink` to run.")
    ] = None,
    execute: Annotated[
        list[str] | None,
        typer.Option("-e", "--execute", help="Statements or one \\command; may be repeated."),
    ] = None,
    file: Annotated[
        Path | None, typer.Option("-f", "--file", help="Run the statements of a file.")
    ] = None,
    start: Annotated[
        Start | None,
        typer.Option(help="Where queries read the stream from; by default stream.start's."),
    ] = None,
    timeout: Annotated[
        float | None, typer.Option(min=0.1, help="Seconds after which a query ends by itself.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="With -e or -f: JSON lines.")] = False,
    python_files: Annotated[
        list[Path] | None,
        typer.Option("--python-file", help="Module of job.merge, for the workers; repeatable."),
    ] = None,
) -> None:
    """Open a SQL shell in which the gated tables exist, or run statements with -e or -f.

    Each query is a job of its own on the cluster and ends with it. With -e and -f: rows go to
    standard output, tab-separated with a header, all else to standard error. Exit codes: 0 done, 1
    a job failed or an audit found rows, 2 refused and nothing submitted, 130 interrupted.
    """
    if execute and file:
        raise typer.BadParameter("give -e or -f, not both")
    interactive = not execute and file is None and sys.stdin.isatty()
    code = Exit.DONE
    with _exits():
        settings = load(config, overrides or [])
        inputs = [] if interactive else list(_inputs(execute or [], file))
        for text, where in inputs:
            # Here already: Flink's client takes its time to start.
            if not text.lstrip().startswith("\\"):
                require_whole(where, text)
        screen: Screen = (
            Terminal(Console(highlight=False))
            if interactive
            else Plain(sys.stdout, sys.stderr, as_json=as_json)
        )
        cluster = choose(rest_url, flink_home)
        with opened(settings, root, cluster, screen, start, python_files or (), timeout) as session:
            code = interact(session) if interactive else session.run(inputs)
    raise typer.Exit(code)


def _inputs(execute: list[str], file: Path | None) -> Iterator[tuple[str, Path]]:
    """Each text that is to be run, with the name that errors give it."""
    for text in execute:
        is_whole = text.lstrip().startswith("\\") or not is_open(text)
        # On a line of its own: the text may end with a comment.
        yield (text if is_whole else f"{text}\n;"), Path("-e")
    if file is not None:
        try:
            yield read_text(file), file
        except OSError as error:
            raise ShellError(
                f"{file} cannot be read: {error}.", "Check the path.", Exit.REFUSED
            ) from error
    elif not execute:
        stdin = Path("stdin")
        yield decoded(stdin, sys.stdin.buffer.read()), stdin


@contextmanager
def _exits() -> Iterator[None]:
    """Errors that are meant for people end the command, each with its exit code."""
    try:
        yield
    except TablegateError as error:
        sys.stderr.write(f"tablegate: {error}\n")
        raise typer.Exit(exit_code(error)) from error
    except KeyboardInterrupt:
        raise typer.Exit(Exit.INTERRUPTED) from None
    except BrokenPipeError:
        # Whoever read the rows has enough. Python would complain once more when it closes them.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(Exit.DONE) from None
