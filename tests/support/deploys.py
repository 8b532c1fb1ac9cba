"""Deploys of the main job in a test: `JoinJob`'s topics and settings, a journal of its own."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from ops.cli import app
from ops.deploy.checks import Check, Verdict
from ops.deploy.journal import Journal, Result, Version
from ops.deploy.port import Budget
from ops.deploy.preflight import Printer
from ops.deploy.session import Options, Session
from tests.support.join_job import JoinJob

# Long enough for a busy machine; below what pytest gives a test.
_TIMEOUT_S = 240.0


@dataclass
class Told(Printer):
    """Keeps what a person would have seen."""

    lines: list[str] = field(default_factory=list)
    checks: list[Check] = field(default_factory=list)

    def say(self, text: str) -> None:
        self.lines.append(text)

    def check(self, check: Check) -> None:
        self.checks.append(check)

    def refused(self) -> dict[str, str]:
        return {c.name: c.found for c in self.checks if c.verdict is Verdict.REFUSED}


class Deploys:
    """The commands, on the job of ``job``'s settings file."""

    def __init__(self, job: JoinJob, folder: Path) -> None:
        self.job = job
        self.folder = folder / "deployments"
        self.journal = Journal(job.orders, self.folder)
        self.told = Told()

    def session(self, *, timeout_s: float = _TIMEOUT_S, max_lag: int = 0) -> Session:
        budget = Budget(timeout_s, _TIMEOUT_S, max_lag)
        options = Options(budget=budget, savepoint_timeout_s=_TIMEOUT_S)
        return Session(self.job.flink, self.journal, options, self.told)

    def version(
        self, action: str = "upgrade", overrides: Sequence[str] = (), files: Sequence[Path] = ()
    ) -> Version:
        config = self.job.config.read_text()
        return self.session().version(action, config, overrides, files)

    def deploy(self) -> Version:
        """A first deploy."""
        return self._done(self.session().deploy(self.version("deploy"), "", anew=False))

    def upgrade(
        self,
        overrides: Sequence[str] = (),
        files: Sequence[Path] = (),
        *,
        reload_table: bool = False,
        timeout_s: float = _TIMEOUT_S,
    ) -> Version:
        new = self.version("reload" if reload_table else "upgrade", overrides, files)
        session = self.session(timeout_s=timeout_s)
        return self._done(session.upgrade(new, "", reload_table=reload_table))

    def rollback(self, to: int | None = None, savepoint: str = "") -> Version:
        return self._done(self.session().rollback(to, savepoint))

    def rescale(self, parallelism: int) -> Version:
        return self._done(self.session().rescale(parallelism))

    def adopt(self) -> Version:
        """Start the job as if it had been deployed, without the load: one start, not two."""
        self.job.start()
        new = self.version("deploy")
        return self.journal.write(replace(new, job_id=self.job.job_id).ended(Result.RUNNING))

    def results(self) -> list[str]:
        return [str(version.result) for version in self.journal.versions()]

    def _done(self, version: Version | None) -> Version:
        assert version is not None
        self.job.job_id = version.job_id
        return version

    def track(self) -> None:
        """Let the test's clean-up cancel whatever the journal started last."""
        started = [version.job_id for version in self.journal.versions() if version.job_id]
        self.job.job_id = started[-1] if started else self.job.job_id


def status(job: JoinJob, *arguments: str) -> tuple[int, dict[str, Any]]:
    """Exit code and JSON of `tablegate status`."""
    line = ["status", "--job", job.orders, "--config", str(job.config), "--json"]
    line += ["--rest-url", job.flink.rest_url, *arguments]
    done = CliRunner().invoke(app, line)
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1]) if done.stdout else {}
    return done.exit_code, found
