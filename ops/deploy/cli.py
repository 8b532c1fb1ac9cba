"""`tablegate deploy`, `upgrade`, `rollback`, `rescale`, `deployments`."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.live import Live
from rich.text import Text

from jobs.settings import load
from ops.cluster import choose
from ops.deploy.checks import Check, Verdict
from ops.deploy.errors import DeployError, Exit
from ops.deploy.journal import FOLDER, Journal, Version, current, jobs_in
from ops.deploy.port import Budget
from ops.deploy.preflight import Printer
from ops.deploy.session import Options, Session, read_config
from ops.status import screen
from ops.status.cli import FlinkHome, Lines, MaxLag, RestUrl
from ops.status.model import MAX_LAG, Status

_out = Console(highlight=False, soft_wrap=True)

Overrides = Annotated[
    list[str] | None, typer.Option("--set", help="dotted.key=value; may be repeated.")
]
PythonFiles = Annotated[
    list[Path] | None,
    typer.Option("--python-file", help="Module of job.merge, for the workers; repeatable."),
]
JournalFolder = Annotated[
    Path | None,
    typer.Option(
        "--journal", help="Folder of the journals; TABLEGATE_DEPLOYMENTS, or build/deployments."
    ),
]
JobName = Annotated[
    str | None, typer.Option("--job", help="The job's name; by default the journal's only one.")
]
Timeout = Annotated[float, typer.Option(min=1, help="Seconds until the new version must be ready.")]
SavepointTimeout = Annotated[float, typer.Option(min=1, help="Seconds that a savepoint may take.")]
LoadTimeout = Annotated[
    float, typer.Option(min=1, help="Seconds that a load without the stream may take.")
]
WorkerPython = Annotated[
    str | None,
    typer.Option(help="Interpreter on the workers; the cluster's python.executable by default."),
]
RestartWorkers = Annotated[
    str,
    typer.Option(
        help="Command that restarts the TaskManagers when the workers' code changed, and returns."
    ),
]
FreshWorkers = Annotated[
    bool, typer.Option("--fresh-workers", help="The new version gets TaskManagers of its own.")
]
CheckOnly = Annotated[
    bool, typer.Option("--check", help="Only run the checks: exit code 0, or 2 for refused.")
]
GivenSavepoint = Annotated[
    str, typer.Option("--savepoint", help="Savepoint or retained checkpoint to start from.")
]

# Enough for JVM and Python to start on a busy machine, and for a table's delta; a cold load of a
# large table needs more, and takes --load-timeout where it is done without the stream.
_TIMEOUT_S = 300.0
_SAVEPOINT_TIMEOUT_S = 600.0
_LOAD_TIMEOUT_S = 6 * 3_600.0
_COLOURS = {Verdict.OK: "green", Verdict.WARN: "yellow", Verdict.REFUSED: "red"}


class Screen(Printer):
    """Prints lines; on a terminal the status below them moves."""

    def __init__(self, out: Console) -> None:
        self._out = out
        self._lines = Lines(out, "  ")
        self._live: Live | None = None

    def live(self) -> AbstractContextManager[object]:
        """While this is entered, a terminal shows the status live."""
        if not self._out.is_terminal:
            return nullcontext()
        self._live = Live(console=self._out, refresh_per_second=4, transient=True)
        return self._live

    def say(self, text: str) -> None:
        """One line."""
        self._out.print(text, markup=False)
        # The next status is news again, whatever was waited for before.
        self._lines = Lines(self._out, "  ")

    def check(self, check: Check) -> None:
        """One check's result, with its remedy."""
        remedy = f" {check.remedy}" if check.remedy else ""
        self._out.print(
            Text.assemble(
                (f"{check.verdict:8}", _COLOURS[check.verdict]),
                f" {check.name}: {check.found}{'.' if remedy else ''}{remedy}",
            )
        )

    def each(self, status: Status) -> None:
        """A status while something is waited for."""
        if self._live is not None:
            self._live.update(screen.page(status))
        else:
            self._lines(status)


def _options(
    timeout: float,
    load_timeout: float,
    max_lag: int,
    savepoint_timeout: float,
    worker_python: str | None,
    restart_workers: str,
    fresh_workers: bool,
    check: bool,
) -> Options:
    return Options(
        budget=Budget(timeout, load_timeout, max_lag),
        savepoint_timeout_s=savepoint_timeout,
        worker_python=worker_python or "",
        restart_command=restart_workers,
        fresh_workers=fresh_workers,
        check_only=check,
    )


def register(app: typer.Typer) -> None:
    """Add the commands to ``app``."""
    app.command()(deploy)
    app.command()(upgrade)
    app.command()(rollback)
    app.command()(rescale)
    app.command()(deployments)


def deploy(
    *,
    config: Annotated[Path, typer.Option(help="The job's TOML file.")],
    overrides: Overrides = None,
    python_files: PythonFiles = None,
    savepoint: GivenSavepoint = "",
    anew: Annotated[
        bool, typer.Option("--anew", help="Also when a version that was stopped has state.")
    ] = False,
    timeout: Timeout = _TIMEOUT_S,
    load_timeout: LoadTimeout = _LOAD_TIMEOUT_S,
    savepoint_timeout: SavepointTimeout = _SAVEPOINT_TIMEOUT_S,
    max_lag: MaxLag = MAX_LAG,
    worker_python: WorkerPython = None,
    check: CheckOnly = False,
    journal: JournalFolder = None,
    rest_url: RestUrl = None,
    flink_home: FlinkHome = None,
) -> None:
    """Start a job that does not run yet: checks, loads the table without the stream, starts.

    Exit codes: 0 ready, 2 refused (nothing touched), 4 runs and is not ready yet, 5 nothing runs.
    """
    text = read_config(config)
    name = load(config, overrides or []).job.name
    options = _options(
        timeout, load_timeout, max_lag, savepoint_timeout, worker_python, "", False, check
    )

    def work(session: Session) -> Version | None:
        new = session.version("deploy", text, overrides or [], python_files or [])
        return session.deploy(new, savepoint, anew=anew)

    _run(name, journal, rest_url, flink_home, options, work)


def upgrade(
    *,
    config: Annotated[
        Path | None, typer.Option(help="The job's TOML file; the current version's by default.")
    ] = None,
    overrides: Overrides = None,
    python_files: PythonFiles = None,
    job: JobName = None,
    reload_table: Annotated[
        bool,
        typer.Option("--reload-table", help="Load the table anew while the old version runs."),
    ] = False,
    savepoint: Annotated[
        str, typer.Option(help="Where to start from when the old version does not run.")
    ] = "",
    timeout: Timeout = _TIMEOUT_S,
    load_timeout: LoadTimeout = _LOAD_TIMEOUT_S,
    savepoint_timeout: SavepointTimeout = _SAVEPOINT_TIMEOUT_S,
    max_lag: MaxLag = MAX_LAG,
    worker_python: WorkerPython = None,
    restart_workers: RestartWorkers = "",
    fresh_workers: FreshWorkers = False,
    check: CheckOnly = False,
    journal: JournalFolder = None,
    rest_url: RestUrl = None,
    flink_home: FlinkHome = None,
) -> None:
    """Replace the running version by this checkout; rolled back when it does not become ready.

    Ready: the gate is open and the stream's lag is within --max-lag, within --timeout. Exit codes:
    0 ready, 2 refused (nothing touched), 3 rolled back, 5 nothing runs.
    """
    name = load(config, overrides or []).job.name if config else _job(job, journal)
    options = _options(
        timeout,
        load_timeout,
        max_lag,
        savepoint_timeout,
        worker_python,
        restart_workers,
        fresh_workers,
        check,
    )

    def work(session: Session) -> Version | None:
        files, action = python_files or [], "reload" if reload_table else "upgrade"
        if config:
            new = session.version(action, read_config(config), overrides or [], files)
        else:
            new = session.again(action, overrides or [], files)
        return session.upgrade(new, savepoint, reload_table=reload_table)

    _run(name, journal, rest_url, flink_home, options, work)


def rollback(
    *,
    job: JobName = None,
    to: Annotated[
        int | None, typer.Option(help="Which version; the one before by default.")
    ] = None,
    savepoint: GivenSavepoint = "",
    timeout: Timeout = _TIMEOUT_S,
    savepoint_timeout: SavepointTimeout = _SAVEPOINT_TIMEOUT_S,
    max_lag: MaxLag = MAX_LAG,
    worker_python: WorkerPython = None,
    restart_workers: RestartWorkers = "",
    fresh_workers: FreshWorkers = False,
    check: CheckOnly = False,
    journal: JournalFolder = None,
    rest_url: RestUrl = None,
    flink_home: FlinkHome = None,
) -> None:
    """Go back to an earlier version, its package and config, from the savepoint taken of it.

    What the newer version wrote since is written again. Exit codes as of deploy.
    """
    options = _options(
        timeout,
        _LOAD_TIMEOUT_S,
        max_lag,
        savepoint_timeout,
        worker_python,
        restart_workers,
        fresh_workers,
        check,
    )
    _run(
        _job(job, journal),
        journal,
        rest_url,
        flink_home,
        options,
        lambda session: session.rollback(to, savepoint),
    )


def rescale(
    *,
    parallelism: Annotated[int, typer.Option(min=1, help="Subtasks of the join.")],
    in_place: Annotated[
        bool, typer.Option("--in-place", help="Without a savepoint; needs the adaptive scheduler.")
    ] = False,
    job: JobName = None,
    timeout: Timeout = _TIMEOUT_S,
    savepoint_timeout: SavepointTimeout = _SAVEPOINT_TIMEOUT_S,
    max_lag: MaxLag = MAX_LAG,
    worker_python: WorkerPython = None,
    check: CheckOnly = False,
    journal: JournalFolder = None,
    rest_url: RestUrl = None,
    flink_home: FlinkHome = None,
) -> None:
    """Give the running version another parallelism, by a savepoint; rolled back like an upgrade."""
    options = _options(
        timeout, _LOAD_TIMEOUT_S, max_lag, savepoint_timeout, worker_python, "", False, check
    )
    _run(
        _job(job, journal),
        journal,
        rest_url,
        flink_home,
        options,
        lambda session: (
            session.rescale_in_place(parallelism) if in_place else session.rescale(parallelism)
        ),
    )


def deployments(
    *,
    job: JobName = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    journal: JournalFolder = None,
) -> None:
    """List every start of a job: when, from what, and how it ended."""
    book = Journal(_job(job, journal), journal)
    versions = book.versions()
    now = current(versions)
    if as_json:
        typer.echo(json.dumps([asdict(version) for version in versions]))
        return
    _out.print(f"{book.job}, in {book.folder}", markup=False)
    for version in versions:
        copied = f" of {version.copy_of}" if version.copy_of else ""
        mark = "*" if now and version.number == now.number else " "
        at = screen.moment(version.at_ms)
        what = f"{version.action}{copied}"
        lines = [f"{mark} {version.number:<3} {at}  {what:<17} {version.result}"]
        facts = {
            "job": version.job_id,
            "from": version.started_from,
            "stopped with": version.stopped_with,
            "reason": version.reason,
        }
        lines += [f"      {name} {value}" for name, value in facts.items() if value]
        _out.print("\n".join(lines), markup=False)


def _job(job: str | None, folder: Path | None) -> str:
    """The job that is meant: the one that was named, or the only one with a journal."""
    if job:
        return job
    names = jobs_in(folder)
    if len(names) != 1:
        found = ", ".join(names) or "none"
        raise DeployError(
            f"Which job? Journals in {folder or FOLDER}: {found}.",
            "Name it with --job.",
            Exit.REFUSED,
        )
    return names[0]


def _run(
    name: str,
    folder: Path | None,
    rest_url: str | None,
    flink_home: Path | None,
    options: Options,
    work: Callable[[Session], Version | None],
) -> None:
    printer = Screen(_out)
    journal = Journal(name, folder)
    try:
        with journal.alone():
            session = Session(choose(rest_url, flink_home), journal, options, printer)
            with printer.live():
                ready = work(session)
    except DeployError as error:
        sys.stderr.write(f"tablegate: {error}\n")
        raise typer.Exit(error.code) from error
    except KeyboardInterrupt as interrupt:
        now = current(journal.versions())
        left = "nothing was started"
        if now is not None:
            left = f"version {now.number}, job {now.job_id or 'none'}, {now.result}"
        sys.stderr.write(
            f"tablegate: interrupted; the journal says: {left}. "
            "Look at `tablegate status` and `tablegate deployments`.\n"
        )
        raise typer.Exit(Exit.ERROR) from interrupt
    if ready is not None:
        _out.print(f"Version {ready.number} of {name} is ready (job {ready.job_id}).", markup=False)
