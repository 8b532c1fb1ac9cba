"""The `tablegate` command, for people on call and for people at a laptop."""

import json
import os
import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from jobs.settings import load
from ops import flink_run
from ops.audit.cli import register as register_audit
from ops.demo.cli import register as register_demo
from ops.deploy.cli import register as register_deploy
from ops.deploy.errors import DeployError
from ops.package import package as package_udfs
from ops.paths import UDFS_ZIP, VENV
from ops.plan.cli import register as register_plan
from ops.retry.cli import register as register_retry
from ops.sql.cli import register as register_sql
from ops.sqlclient.cli import register as register_sqlclient
from ops.stack.local import Addresses, Stack
from ops.status.cli import register as register_status
from ops.status.screen import ABSENT_AS_JSON
from udfs.core.errors import TablegateError

app = typer.Typer(
    help="Joins a stream with a Kafka table only after the table has been read.",
    no_args_is_help=True,
    add_completion=False,
    # Errors meant for people are printed by main(); a traceback of ours should look like one.
    pretty_exceptions_enable=False,
)
job = typer.Typer(help="Submit, list, stop jobs on the local stack.", no_args_is_help=True)
app.add_typer(job, name="job")

_out = Console(highlight=False, soft_wrap=True)


def _show(addresses: Addresses) -> None:
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_row("brokers", addresses.brokers)
    table.add_row("Flink", addresses.rest_url)
    table.add_row("TaskManagers", f"{addresses.taskmanagers}, slots {addresses.slots}")
    table.add_row("metrics", ", ".join(f"{n} {where}" for n, where in addresses.metrics.items()))
    table.add_row("for Prometheus", addresses.prometheus_targets)
    if addresses.sql_gateway:
        table.add_row("SQL gateway", addresses.sql_gateway)
    table.add_row("folder", addresses.folder)
    _out.print(table)
    _out.print('For `flink` and others in this shell: eval "$(tablegate env)"')


@app.command()
def up(
    *,
    taskmanagers: Annotated[
        int, typer.Option(min=1, help="How many; a second one stands by for a killed one.")
    ] = 2,
    slots: Annotated[
        int, typer.Option(min=1, help="Slots of each; one is best, they share a Python lock.")
    ] = 1,
    sql_gateway: Annotated[
        bool, typer.Option("--sql-gateway", help="Flink's SQL gateway too, for other SQL clients.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the addresses as JSON.")] = False,
) -> None:
    """Start Kafka and Flink on free ports in build/stack, or what of them is not running."""
    stack = Stack(taskmanagers=taskmanagers, slots=slots)
    started = stack.up()
    if sql_gateway:
        started = stack.up_gateway() or started
    addresses = stack.addresses()
    if as_json:
        typer.echo(json.dumps({**addresses.as_dict(), "started": started}))
        return
    _out.print("The stack is up." if started else "The stack was up already.")
    _show(addresses)


@app.command()
def down() -> None:
    """Stop what `up` started. Topics, checkpoints and savepoints stay until `make clean`."""
    stopped = Stack().down()
    _out.print("The stack is down." if stopped else "Nothing was running.")


def _show_stack(as_json: bool) -> None:
    # For `status`, which has just heard the JobManager and found no job. The broker may be dead.
    stack = Stack()
    addresses = stack.seen_by_flink()
    notes = [] if stack.broker.running else ["The broker does not run: `tablegate up`."]
    if as_json:
        found = {**ABSENT_AS_JSON, **addresses.as_dict(), "jobs": [], "notes": notes}
        typer.echo(json.dumps(found))
        return
    _out.print("No job runs, and none is known.")
    _show(addresses)
    for note in notes:
        _out.print(note)


@app.command()
def env() -> None:
    """Print the shell's exports for `flink run` by hand: eval "$(tablegate env)"."""
    stack = Stack()
    addresses = stack.addresses()
    flink = stack.flink
    exports = {
        **flink.environment,
        "TABLEGATE_BROKERS": addresses.brokers,
        "TABLEGATE_PROMETHEUS_TARGETS": addresses.prometheus_targets,
    }
    for key, value in exports.items():
        typer.echo(f"export {key}={shlex.quote(value)}")
    path = os.pathsep.join((str(flink.home / "bin"), str(VENV / "bin")))
    typer.echo(f'export PATH={shlex.quote(path)}:"$PATH"')


@app.command()
def package() -> None:
    """Write build/tablegate-udfs.zip, which `flink run -pyfs` sends to the workers."""
    written = package_udfs()
    _out.print(f"{UDFS_ZIP} {'written' if written else 'was up to date'}.")


@job.command("run")
def job_run(
    config: Annotated[Path, typer.Option(help="The job's TOML file.")],
    overrides: Annotated[
        list[str] | None, typer.Option("--set", help="dotted.key=value; may be repeated.")
    ] = None,
    from_savepoint: Annotated[
        str | None, typer.Option(help="Savepoint or retained checkpoint to start from.")
    ] = None,
    entry: Annotated[
        Path | None, typer.Option(help="The Python file that is the job; by default ours.")
    ] = None,
    sql: Annotated[
        Path | None, typer.Option(help="Submit the SQL variant, with the files of this folder.")
    ] = None,
    python_files: Annotated[
        list[Path] | None,
        typer.Option("--python-file", help="Module of job.merge, for the workers; repeatable."),
    ] = None,
) -> None:
    """Submit the job with `flink run`, show that line, and return when every task runs."""
    settings = overrides or []
    # Refused here at once instead of after a JVM's start; the entry checks again, and the brokers.
    load(config, settings)
    cluster = Stack().flink
    Stack().addresses()
    submission: flink_run.Submission = {
        "config": config.resolve(),
        "overrides": settings,
        "entry": (entry or (flink_run.ENRICH_SQL if sql else flink_run.ENRICH)).resolve(),
        "from_savepoint": from_savepoint,
        # `flink run` may start Python in a folder of its own.
        "job_arguments": ["--sql", str(sql.resolve())] if sql else [],
        "extra_python_files": [path.resolve() for path in python_files or ()],
    }
    _out.print(flink_run.shown(flink_run.arguments(**submission)), markup=False)
    job_id = flink_run.submit(cluster, **submission)
    flink_run.wait_running(cluster, job_id)
    _out.print(f"Job {job_id} is running: {cluster.rest_url}/#/job/running/{job_id}/overview")


@job.command("list")
def job_list() -> None:
    """List the jobs that the local cluster remembers."""
    table = Table("job", "name", "state", box=None, pad_edge=False)
    for entry in flink_run.jobs(Stack().flink):
        table.add_row(entry["jid"], entry["name"], entry["state"])
    _out.print(table)


@job.command("stop")
def job_stop(
    job_id: str,
    savepoint_dir: Annotated[
        str | None, typer.Option(help="Where to; the cluster's own directory by default.")
    ] = None,
) -> None:
    """Stop a job with a savepoint and print its path, for `job run --from-savepoint`."""
    typer.echo(flink_run.stop_with_savepoint(Stack().flink, job_id, savepoint_dir))


@job.command("cancel")
def job_cancel(job_id: str) -> None:
    """Cancel a job without a savepoint."""
    flink_run.cancel(Stack().flink, job_id)


register_audit(app)
register_demo(app)
register_deploy(app)
register_plan(app)
register_status(app, _show_stack)
register_retry(app)
register_sql(app)
register_sqlclient(app)


def main() -> None:
    """Entry point: errors that are meant for people are printed without a traceback."""
    try:
        app()
    except TablegateError as error:
        sys.stderr.write(f"tablegate: {error}\n")
        # Scripts go by it, wherever in a command the error was raised.
        sys.exit(error.code if isinstance(error, DeployError) else 1)
