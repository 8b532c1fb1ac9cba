"""`tablegate status`: where a job stands, for people, programs and probes."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import requests
import typer
from rich.console import Console
from rich.live import Live

from jobs.settings import Settings, load
from ops import flink_run
from ops.cluster import Cluster, UnreachableError, choose
from ops.deploy.journal import Journal, current, jobs_in
from ops.stack.flink import FlinkCluster
from ops.status import screen
from ops.status.model import MAX_LAG, Exit, Phase, Status
from ops.status.watch import Watch
from udfs.core.errors import StackError, TablegateError

RestUrl = Annotated[
    str | None,
    typer.Option("--rest-url", help="Flink's REST address; by default FLINK_CONF_DIR's, or local."),
]
FlinkHome = Annotated[
    Path | None, typer.Option("--flink-home", help="The Flink home whose `flink` to run.")
]
MaxLag = Annotated[int, typer.Option(min=0, help="Records the stream may be behind when ready.")]

_out = Console(highlight=False, soft_wrap=True)
# A line for a log where nobody watches: often enough to see that it goes on.
_LINE_EVERY_S = 10.0
_LIVING = frozenset({"RUNNING", "CREATED", "INITIALIZING", "RESTARTING", "FAILING"})


def register(app: typer.Typer, show_stack: Callable[[bool], None]) -> None:
    """Add the command to ``app``; ``show_stack`` prints where the local stack answers."""

    @app.command()
    def status(
        *,
        job: Annotated[
            str | None, typer.Option(help="Name or id; the only running job by default.")
        ] = None,
        config: Annotated[
            Path | None,
            typer.Option(help="The job's TOML file: asks the brokers too. Default: the journal's."),
        ] = None,
        overrides: Annotated[
            list[str] | None, typer.Option("--set", help="dotted.key=value; may be repeated.")
        ] = None,
        wait: Annotated[bool, typer.Option("--wait", help="Until it is ready, or dead.")] = False,
        timeout: Annotated[float, typer.Option(help="Seconds to wait at most.")] = 600,
        alive: Annotated[
            bool, typer.Option("--alive", help="Liveness: exit code 0 also while it loads.")
        ] = False,
        as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
        max_lag: MaxLag = MAX_LAG,
        rest_url: RestUrl = None,
        flink_home: FlinkHome = None,
    ) -> None:
        """Show where a job stands. Exit codes: 0 ready, 3 alive but not ready, 4 dead, 5 unknown.

        With --alive, 0 for everything that is not dead. Where there never was a job it shows where
        the local stack answers.
        """
        try:
            cluster = choose(rest_url, flink_home)
            _expect_stack(cluster)
            name = job or _only_job(cluster)
            if name is None:
                _show_absence(cluster, show_stack, as_json=as_json)
                raise typer.Exit(Exit.DEAD)
            watch = Watch(
                cluster, name, _settings(cluster, name, config, overrides), max_lag=max_lag
            )
            try:
                found = _wait(watch, timeout, as_json=as_json) if wait else watch.look()
            finally:
                watch.close()
        except (TablegateError, requests.RequestException) as error:
            # An answer that is no JobManager's is none, like silence.
            of_ours = isinstance(error, TablegateError) and not isinstance(error, UnreachableError)
            sys.stderr.write(f"tablegate: {error}\n")
            if as_json:
                typer.echo(json.dumps(screen.unknown_as_json(str(error))))
            raise typer.Exit(Exit.ERROR if of_ours else Exit.UNKNOWN) from error
        if as_json:
            typer.echo(json.dumps(screen.as_json(found)))
        elif not wait or not _out.is_terminal:
            _out.print(screen.page(found))
        code = Exit.READY if alive and found.alive else found.exit_code
        raise typer.Exit(code)


def _expect_stack(cluster: Cluster) -> None:
    """Raise where the local stack is meant and its JobManager cannot answer.

    Asking its port would not do: somebody else may have it by now.
    """
    if not isinstance(cluster, FlinkCluster) or cluster.running:
        return
    stack = cluster.folder.parent
    try:
        url = cluster.rest_url
    except StackError:
        raise StackError(f"No stack is up in {stack}.", "Run `tablegate up`.") from None
    raise UnreachableError(
        f"The JobManager of the stack in {stack} ({url}), or its ZooKeeper, does not run.",
        "Run `tablegate up`.",
    )


def _only_job(cluster: Cluster) -> str | None:
    """The id of the only job that runs, else the name of the only one that did; None: none ever.

    Raises:
        StackError: there are several.
    """
    listed = flink_run.jobs(cluster)
    living = [entry for entry in listed if entry["state"] in _LIVING]
    if len(living) == 1:
        return str(living[0]["jid"])
    if living:
        names = ", ".join(sorted(entry["name"] for entry in living))
        raise StackError(f"{len(living)} jobs run: {names}.", "Choose one with --job.")
    # The journal first: beside its job Flink knows the run that loaded the table.
    known = [jobs_in(), sorted({str(entry["name"]) for entry in listed})]
    for names_of_one in known:
        if len(names_of_one) == 1:
            return names_of_one[0]
    several = sorted({*known[0], *known[1]})
    if several:
        raise StackError(
            f"No job runs, and {len(several)} are known: {', '.join(several)}.",
            "Choose one with --job.",
        )
    return None


def _show_absence(cluster: Cluster, show_stack: Callable[[bool], None], *, as_json: bool) -> None:
    if isinstance(cluster, FlinkCluster):
        show_stack(as_json)
    elif as_json:
        typer.echo(json.dumps({**screen.ABSENT_AS_JSON, "rest_url": cluster.rest_url, "jobs": []}))
    else:
        _out.print(f"No job runs at {cluster.rest_url}, and none is known.", markup=False)


def _settings(
    cluster: Cluster, job: str, config: Path | None, overrides: list[str] | None
) -> Settings | None:
    """The settings that were given, else those that the journal has of the job, else None."""
    if config is not None:
        return load(config, overrides or [])
    # By the name, if an id was given: a journal is a name's.
    names = [str(e["name"]) for e in flink_run.jobs(cluster) if e["jid"] == job]
    for name in (*names, job):
        try:
            if version := current(Journal(name).versions()):
                return version.settings()
        except TablegateError:
            # Its environment variables may be set elsewhere only: then Flink alone has to do.
            continue
    return None


def _wait(watch: Watch, timeout: float, *, as_json: bool) -> Status:
    def done(status: Status) -> bool:
        # A job that is not there yet may be on its way.
        return status.ready or (not status.alive and status.phase is not Phase.ABSENT)

    if as_json:
        return watch.until(done, timeout_s=timeout)[0]
    if _out.is_terminal:
        with Live(console=_out, refresh_per_second=4) as live:
            return watch.until(
                done, timeout_s=timeout, each=lambda status: live.update(screen.page(status))
            )[0]
    return watch.until(done, timeout_s=timeout, each=Lines(_out))[0]


class Lines:
    """Prints a status when its phase changed, and every ten seconds."""

    def __init__(self, out: Console, prefix: str = "") -> None:
        self._out = out
        self._prefix = prefix
        self._phase: Phase | None = None
        self._printed = 0.0

    def __call__(self, status: Status) -> None:
        """Print it, or not."""
        now = time.monotonic()
        if status.phase is not self._phase or now - self._printed >= _LINE_EVERY_S:
            self._phase, self._printed = status.phase, now
            self._out.print(f"{self._prefix}{screen.one_line(status)}", markup=False)
