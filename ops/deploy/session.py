"""One command's work on one job: makes the version, runs the checks, calls the action."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from jobs.settings import ConfigErrors, load
from ops.cluster import Cluster
from ops.deploy import checks, packages
from ops.deploy.actions import Deployer
from ops.deploy.checks import Check, Verdict
from ops.deploy.engine import FlinkEngine, Workers
from ops.deploy.errors import DeployError, Exit
from ops.deploy.in_place import rescale_in_place
from ops.deploy.journal import (
    Journal,
    Result,
    Version,
    current,
    now_ms,
    target_of_rollback,
)
from ops.deploy.port import Budget
from ops.deploy.preflight import Preflight, Printer
from ops.deploy.secrets import plain_secrets, storable
from ops.paths import VENV_PYTHON
from ops.stack.flink import FlinkCluster
from udfs.core.errors import StackError


@dataclass(frozen=True, slots=True)
class Options:
    """What all commands that change a job are told."""

    budget: Budget
    savepoint_timeout_s: float
    worker_python: str = ""
    restart_command: str = ""
    fresh_workers: bool = False
    check_only: bool = False


class Session:
    """One command on one job, while nobody else changes it.

    Args:
        cluster: where the job runs.
        journal: the job's.
        options: see there.
        printer: shows what happens.
    """

    def __init__(
        self, cluster: Cluster, journal: Journal, options: Options, printer: Printer
    ) -> None:
        self._cluster = cluster
        self._journal = journal
        self._options = options
        self._printer = printer
        told = checks.config_of(cluster)
        local = isinstance(cluster, FlinkCluster)
        python = options.worker_python or told.get("python.executable") or str(VENV_PYTHON)
        self._workers = Workers(
            python=python,
            thread_mode=told.get("python.execution-mode", "process") == "thread",
            restart_command=options.restart_command,
            fresh=options.fresh_workers,
        )
        self._engine = FlinkEngine(
            cluster,
            journal,
            self._workers,
            savepoint_timeout_s=options.savepoint_timeout_s,
            say=printer.say,
            each=printer.each,
        )
        self._preflight = Preflight(
            cluster,
            journal,
            self._engine,
            self._workers,
            # The local stack's TaskManagers are ours to restart.
            restarts_workers=local or bool(options.restart_command) or options.fresh_workers,
            printer=printer,
        )
        self._deployer = Deployer(journal, self._engine, options.budget)

    # ------------------------------------------------------------------------------ commands

    def deploy(self, new: Version, savepoint: str, *, anew: bool) -> Version | None:
        """Start a job that does not run yet. None: only checked.

        Raises:
            DeployError: see its code.
        """
        self._deployer.recover()
        old = current(self._journal.versions())
        if running := self._engine.running(self._journal.job):
            raise DeployError(
                f"Job {self._journal.job} runs already ({', '.join(running)}).",
                "Use `tablegate upgrade`.",
                Exit.REFUSED,
            )
        if old is not None and not anew:
            left = f"savepoint {old.stopped_with}" if old.stopped_with else "its checkpoints"
            raise DeployError(
                f"Version {old.number} of {self._journal.job} is the current one and does not run; "
                f"its state is in {left}.",
                "`tablegate upgrade` goes on from there. `tablegate deploy --anew` starts without "
                "that state, and reads the stream from stream.start; events that wait in it for "
                "their row or their next try are not tried again.",
                Exit.REFUSED,
            )
        found = self._preflight.run(new, savepoint=savepoint, old=None, beside=False)
        if not self._go_on(new, found):
            return None
        if old is not None:
            self._journal.write(old.ended(Result.REPLACED, f"started anew as {new.number}"))
        return self._deployer.deploy(new, savepoint)

    def upgrade(self, new: Version, savepoint: str, *, reload_table: bool) -> Version | None:
        """Replace the current version. None: only checked.

        Raises:
            DeployError: see its code.
        """
        old = self._current()
        self._require_settings(old)
        running = old.job_id in self._engine.running(self._journal.job)
        if not running and not savepoint:
            savepoint = old.stopped_with or self._engine.latest_checkpoint(old.job_id)
            if not savepoint and not reload_table:
                raise DeployError(
                    f"Version {old.number} (job {old.job_id or 'none'}) does not run, and no "
                    "savepoint or checkpoint of it is known here.",
                    "Name one with --savepoint. Without any, `tablegate deploy --anew` loads the "
                    "table again and reads the stream from stream.start.",
                    Exit.REFUSED,
                )
            self._printer.say(f"Version {old.number} does not run; going on from {savepoint}.")
        look_at = "" if running or reload_table else savepoint
        found = self._preflight.run(new, savepoint=look_at, old=old, beside=reload_table)
        if not reload_table:
            found.append(self._preflight.state_belongs(new, old))
        if running and not reload_table:
            found.append(self._preflight.state_of_running(new, old))
        if not self._go_on(new, found):
            return None
        if reload_table:
            return self._deployer.reload(new, old)
        return self._deployer.upgrade(new, old, savepoint)

    def rollback(self, to: int | None, savepoint: str) -> Version | None:
        """Go back to an earlier version. None: only checked.

        Raises:
            DeployError: see its code.
        """
        self._deployer.recover()
        versions = self._journal.versions()
        old = current(versions)
        target = target_of_rollback(versions, to)
        savepoint = savepoint or target.stopped_with
        if not savepoint:
            raise DeployError(
                f"No savepoint was taken of version {target.number}.",
                "Give one with --savepoint; `tablegate deployments` lists those of others.",
                Exit.REFUSED,
            )
        new = self._deployer.copy(target, "rollback")
        found = self._preflight.run(
            new, savepoint=savepoint, old=old, beside=False, taken_ms=self._taken(savepoint)
        )
        if not self._go_on(new, found):
            return None
        return self._deployer.rollback(new, old, savepoint)

    def rescale(self, parallelism: int) -> Version | None:
        """Restart the current version with another parallelism, by a savepoint.

        Raises:
            DeployError: see its code.
        """
        new = self._deployer.copy(self._current(), "rescale", [f"job.parallelism={parallelism}"])
        return self.upgrade(new, "", reload_table=False)

    def rescale_in_place(self, parallelism: int) -> Version | None:
        """Give the running job another parallelism without a savepoint; its id stays.

        None: only checked.

        Raises:
            DeployError: the current version does not run, or cannot have that many subtasks.
            StackError: the cluster refuses it, or it takes too long.
        """
        old = self._current()
        if old.job_id not in self._engine.running(self._journal.job):
            raise DeployError(
                f"Version {old.number} does not run.", "Use `tablegate upgrade`.", Exit.REFUSED
            )
        job = old.settings().job
        if parallelism > job.max_parallelism:
            raise DeployError(
                f"job.parallelism = {parallelism} is more than job.max_parallelism = "
                f"{job.max_parallelism}.",
                "Choose a lower one.",
                Exit.REFUSED,
            )
        room = checks.room(self._cluster, parallelism, given_back=job.parallelism, beside=False)
        if room.verdict is not checks.Verdict.OK:
            raise DeployError(
                f"There are too few slots: {room.found}.",
                "Add TaskManagers first. Flink would keep the wish and follow it when slots come, "
                "whenever that is.",
                Exit.REFUSED,
            )
        if checks.config_of(self._cluster).get("jobmanager.scheduler", "").lower() != "adaptive":
            raise DeployError(
                "Only the adaptive scheduler rescales in place, and jobmanager.scheduler of this "
                "cluster is another.",
                "Leave --in-place out, to rescale by a savepoint.",
                Exit.REFUSED,
            )
        if self._options.check_only:
            self._printer.say(f"Job {old.job_id} can be rescaled in place.")
            return None
        rescale_in_place(
            self._cluster, old.job_id, parallelism, deadline_s=self._options.budget.timeout_s
        )
        new = self._deployer.copy(old, "rescale in place", [f"job.parallelism={parallelism}"])
        new = self._journal.take_over(
            replace(new, job_id=old.job_id, started_from=old.started_from).ended(Result.RUNNING)
        )
        # After it: whoever is interrupted in between has two versions, and not none.
        self._journal.write(old.ended(Result.REPLACED, f"rescaled in place as {new.number}"))
        return new

    # ------------------------------------------------------------------------------ versions

    def version(
        self,
        action: str,
        config: str,
        overrides: Sequence[str],
        python_files: Iterable[Path],
    ) -> Version:
        """A version of this checkout, packaged; not in the journal yet.

        Raises:
            DeployError: a secret stands in the config as plain text.
        """
        plain = plain_secrets(config, overrides)
        if plain:
            raise DeployError(
                f"{', '.join(plain)}: a secret stands there as plain text, and the journal of "
                "deploys would have to keep it.",
                "Put it into an environment variable and write ${env:NAME}.",
                Exit.REFUSED,
            )
        number = self._journal.next_number()
        new = Version(
            number, self._journal.job, action, now_ms(), storable(config), tuple(overrides)
        )
        name = new.settings().job.name
        if name != self._journal.job:
            raise DeployError(
                f"job.name = {name!r}, and the job that runs is called {self._journal.job!r}: "
                "under another name the two would not know of each other, and both would run.",
                "Keep the name. To change it: stop the job, and start the new one with `tablegate "
                "deploy --savepoint PATH`.",
                Exit.REFUSED,
            )
        folder = self._journal.files(new)
        # Left by a version that a check refused.
        shutil.rmtree(folder, ignore_errors=True)
        package, names = packages.collect(folder, python_files)
        code = packages.code(folder, package, names)
        return replace(new, package=package, python_files=names, code=code)

    def again(self, action: str, overrides: Sequence[str], python_files: Sequence[Path]) -> Version:
        """A version of this checkout with the current version's config and modules."""
        old = self._current()
        kept = [self._journal.files(old) / name for name in old.python_files]
        return self.version(action, old.config, (*old.overrides, *overrides), python_files or kept)

    def _require_settings(self, version: Version) -> None:
        try:
            version.settings()
        except ConfigErrors as error:
            raise DeployError(
                f"The settings of version {version.number}, the current one, cannot be read here: "
                f"{error}",
                "Set the environment variables that it refers to, until it has been replaced.",
                Exit.REFUSED,
            ) from error

    def _current(self) -> Version:
        self._deployer.recover()
        found = current(self._journal.versions())
        if found is None:
            raise DeployError(
                f"No version of {self._journal.job} is in {self._journal.folder}.",
                "Start it with `tablegate deploy`; --journal names another folder.",
                Exit.REFUSED,
            )
        return found

    def _taken(self, savepoint: str) -> int | None:
        for version, path in savepoints_of(self._journal):
            if path == savepoint:
                return version.stopped_at_ms
        return None

    def _go_on(self, new: Version, found: Sequence[Check]) -> bool:
        refused = any(check.verdict is Verdict.REFUSED for check in found)
        if refused or self._options.check_only:
            # No start, so no number: its files go with it.
            shutil.rmtree(self._journal.files(new), ignore_errors=True)
        checks.settled(found)
        return not self._options.check_only


def savepoints_of(journal: Journal) -> list[tuple[Version, str]]:
    """Every savepoint that the journal knows, newest first, with its version."""
    return [(v, v.stopped_with) for v in reversed(journal.versions()) if v.stopped_with]


def read_config(path: Path) -> str:
    """The text of a TOML file.

    Raises:
        ConfigErrors: it cannot be read, or is not one; the loader's own words.
        StackError: it went away meanwhile.
    """
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        load(path)
        raise StackError(f"{path} cannot be read: {error}.", "Try again.") from error
