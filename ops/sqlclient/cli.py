"""`tablegate sql-ddl` and `tablegate sql-client`: the topics in other SQL clients of Flink."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer

from jobs.settings import Settings, load
from ops.cluster import choose
from ops.sqlclient import ddl
from ops.stack.local import Stack
from udfs.core.errors import StackError

_FILE = frozenset({"-f", "--file"})

Config = Annotated[Path, typer.Option(help="The job's TOML file.")]
Overrides = Annotated[
    list[str] | None, typer.Option("--set", help="dotted.key=value; may be repeated.")
]
Gated = Annotated[
    bool, typer.Option("--gated-table", help="The gated table and the stream, not the outputs.")
]
RestUrl = Annotated[
    str | None,
    typer.Option(help="JobManager that will run the query; the local stack's by default."),
]


def register(app: typer.Typer) -> None:
    """Add the commands to ``app``."""
    app.command("sql-ddl")(sql_ddl)
    app.command(
        "sql-client",
        context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
    )(sql_client)


def sql_ddl(
    *,
    config: Config,
    overrides: Overrides = None,
    gated_table: Gated = False,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder to write to, passwords included, for the owner's eyes only."),
    ] = None,
    rest_url: RestUrl = None,
    show_secrets: Annotated[
        bool, typer.Option("--show-secrets", help="Print passwords too, which are *** else.")
    ] = False,
) -> None:
    """Print CREATE TABLEs for Flink's SQL client and gateway: the outputs, or the gated table."""
    settings = load(config, overrides or [])
    if out is not None:
        typer.echo(_write(settings, gated_table, rest_url, out))
        return
    if not gated_table:
        made = ddl.outputs_ddl(settings, with_secrets=show_secrets)
    else:
        made = _gated(settings, rest_url, Path(), with_secrets=show_secrets)
    typer.echo(made.text)
    if made.modules:
        sys.stderr.write(
            "tablegate: the function's module is only written with --out FOLDER.\n",
        )
    if "= '***'" in made.text:
        sys.stderr.write(
            "tablegate: passwords are masked; --out writes a file that works, --show-secrets "
            "prints them.\n"
        )


def sql_client(
    context: typer.Context,
    *,
    config: Annotated[
        Path | None, typer.Option(help="The job's TOML file: its tables are there at the start.")
    ] = None,
    overrides: Overrides = None,
    gated_table: Gated = False,
    gateway: Annotated[
        bool, typer.Option("--gateway", help="By the stack's SQL gateway, not by one of its own.")
    ] = False,
) -> None:
    """Run Flink's own SQL client against the local stack; further arguments are the client's.

    For example `-f FILE`. Its prompt and its commands are Flink's.
    """
    stack = Stack()
    addresses = stack.addresses()
    line = [str(stack.flink.home / "bin" / "sql-client.sh")]
    if gateway:
        if not addresses.sql_gateway:
            raise StackError("No SQL gateway is up.", "Run `tablegate up --sql-gateway`.")
        line += ["gateway", "--endpoint", addresses.sql_gateway]
    if config is not None:
        settings = load(config, overrides or [])
        folder = stack.folder / "sql-client"
        line += ["-i", str(_write(settings, gated_table, addresses.rest_url, folder))]
    if _FILE.intersection(context.args):
        # The one form of result that Flink's client takes from a file.
        line += ["-D", "sql-client.execution.result-mode=TABLEAU"]
    done = subprocess.run(
        [*line, *context.args], env={**os.environ, **stack.flink.environment}, check=False
    )
    raise typer.Exit(done.returncode)


def _write(settings: Settings, gated_table: bool, rest_url: str | None, folder: Path) -> Path:
    if not gated_table:
        return ddl.write(folder, "outputs.sql", ddl.outputs_ddl(settings, with_secrets=True))
    made = _gated(settings, rest_url, folder, with_secrets=True)
    return ddl.write(folder, "gated.sql", made)


def _gated(
    settings: Settings, rest_url: str | None, folder: Path, *, with_secrets: bool
) -> ddl.Ddl:
    url = choose(rest_url).rest_url
    topic_id = ddl.table_topic_id(settings)
    return ddl.gated_ddl(settings, url, topic_id, folder, with_secrets=with_secrets)
