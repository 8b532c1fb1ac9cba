"""One command's work on one job: makes the version, runs the checks, calls the action."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from jobs.preflight import ClusterFacts
from jobs.settings import Settings, load
from ops.cluster import Cluster
from ops.deploy import checks, packages, savepoints
from ops.deploy.actions import Budget, Deployer, target_of_rollback
from ops.deploy.checks import Check, Verdict
from ops.deploy.engine import FlinkEngine, Workers
from ops.deploy.errors import DeployError, Exit
from ops.deploy.in_place import rescale_in_place
from ops.deploy.journal import Journal, Result, Version, current, now_ms
from ops.deploy.secrets import Scrubber, plain_secrets, storable
from ops.paths import VENV_PYTHON
from ops.stack.flink import FlinkCluster
from ops.status.model import Status
from udfs.core.errors import StackError

# Loads the settings and the merge function as the version's own entry would.
_DRY_LOAD = (
    "import sys\n"
    "from jobs.settings import load, load_merge\n"
    "from udfs.core.errors import TablegateError\n"
    "try:\n"
    "    settings = load(sys.argv[1], sys.argv[2:])\n"
    "    if settings.job.merge: load_merge(settings.job.merge)\n"
    "except TablegateError as error:\n"
    "    sys.exit(str(error))\n"
)
_DRY_LOAD_S = 120
# A running job deletes its older checkpoints, perhaps the one that is being read.
_LOOKS_AT_CHECKPOINT = 3


class Printer:
    """What a command shows while it works."""

    def say(self, text: str) -> None:
        """One line."""

    def check(self, check: Check) -> None:
        """One check's result."""

    def each(self, status: Status) -> None:
        """A status while something is waited for."""


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
        # The local stack's TaskManagers are ours to restart.
        self._restarts_workers = local or bool(options.restart_command) or options.fresh_workers
        self._engine = FlinkEngine(
            cluster,
            journal,
            self._workers,
            savepoint_timeout_s=options.savepoint_timeout_s,
            say=printer.say,
            each=printer.each,
        )
        self._deployer = Deployer(journal, self._engine, options.budget)

    # ------------------------------------------------------------------------------ commands

    def deploy(self, new: Version, savepoint: str, *, anew: bool) -> Version | None:
        """Start a job that does not run yet. None: only checked.

        Raises:
            DeployError: see its code.
        """
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
                "that state, and reads the stream from stream.start.",
                Exit.REFUSED,
            )
        found = self._checks(new, savepoint=savepoint, old=None, beside=False)
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
        running = old.job_id in self._engine.running(self._journal.job)
        if not running and not savepoint:
            savepoint = old.stopped_with or self._engine.latest_checkpoint(old.job_id)
            self._printer.say(
                f"Version {old.number} does not run; going on from {savepoint or 'nothing'}."
            )
        look_at = "" if running or reload_table else savepoint
        found = self._checks(new, savepoint=look_at, old=old, beside=reload_table)
        if running and not reload_table:
            found.append(self._state_of_running(new, old))
            self._printer.check(found[-1])
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
        found = self._checks(
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

    def rescale_in_place(self, parallelism: int) -> Version:
        """Give the running job another parallelism without a savepoint; its id stays.

        Raises:
            DeployError: the current version does not run.
            StackError: the cluster refuses it, or it takes too long.
        """
        old = self._current()
        if old.job_id not in self._engine.running(self._journal.job):
            raise DeployError(
                f"Version {old.number} does not run.", "Use `tablegate upgrade`.", Exit.REFUSED
            )
        rescale_in_place(
            self._cluster, old.job_id, parallelism, deadline_s=self._options.budget.timeout_s
        )
        new = self._deployer.copy(old, "rescale in place", [f"job.parallelism={parallelism}"])
        new = self._journal.write(
            replace(new, job_id=old.job_id, started_from=old.started_from).ended(Result.RUNNING)
        )
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

    def _current(self) -> Version:
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

    # ------------------------------------------------------------------------------ checks

    def _checks(
        self,
        new: Version,
        *,
        savepoint: str,
        old: Version | None,
        beside: bool,
        taken_ms: int | None = None,
    ) -> list[Check]:
        found: list[Check] = []

        def add(more: Iterable[Check]) -> None:
            for check in more:
                self._printer.check(check)
                found.append(check)

        settings = new.settings()
        add([self._package(new)])
        checked, facts = checks.topics(settings)
        add(checked)
        add(checks.cluster(self._cluster))
        add([self._room(settings, old, beside=beside)])
        thread_mode = self._workers.thread_mode
        add([checks.python(self._cluster, self._workers.python, thread_mode=thread_mode)])
        if old is not None:
            add(
                [
                    checks.code_in_memory(
                        old.code,
                        new.code,
                        restart=self._restarts_workers,
                        thread_mode=thread_mode,
                    )
                ]
            )
        if savepoint:
            add(self._savepoint(new, settings, savepoint, facts, taken_ms))
        return found

    def _room(self, settings: Settings, old: Version | None, *, beside: bool) -> Check:
        given_back = 0
        if old is not None and old.job_id in self._engine.running(self._journal.job):
            given_back = old.settings().job.parallelism
        return checks.room(
            self._cluster, settings.job.parallelism, given_back=given_back, beside=beside
        )

    def _package(self, new: Version) -> Check:
        """Whether the version's own code takes the version's config, and finds the merge module."""
        folder = self._journal.files(new)
        config = folder / "config.toml"
        config.write_text(new.config)
        paths = [folder / new.package, *(_import_root(folder / name) for name in new.python_files)]
        try:
            done = subprocess.run(
                [str(VENV_PYTHON), "-c", _DRY_LOAD, str(config), *new.overrides],
                cwd=folder,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths))},
                capture_output=True,
                text=True,
                timeout=_DRY_LOAD_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return checks.refused(
                "package", f"not loaded after {_DRY_LOAD_S} s", "Does the merge module hang?"
            )
        if done.returncode:
            scrub = Scrubber((new.config, *new.overrides), os.environ)
            told = scrub(done.stderr.strip())[-1_000:]
            return checks.refused("package", told, "Correct the config or the module.")
        return checks.ok("package", f"version {new.number}, code {new.code}")

    def _savepoint(
        self,
        new: Version,
        settings: Settings,
        path: str,
        facts: ClusterFacts | None,
        taken_ms: int | None,
    ) -> list[Check]:
        found, read = checks.savepoint(
            self._cluster, path, self._engine.uids(new), settings.job.max_parallelism
        )
        taken = taken_ms or (read.modified_ms if read else None)
        if taken and facts:
            expired = savepoints.expired_tombstones(
                taken, now_ms(), facts.table.delete_retention_ms
            )
            if expired:
                found.append(
                    checks.warn(
                        "tombstones", expired, "Afterwards, `tablegate upgrade --reload-table`."
                    )
                )
        return found

    def _state_of_running(self, new: Version, old: Version) -> Check:
        """Whether the new version takes the state of the running one, by its newest checkpoint.

        The savepoint itself is looked at once it is there; but then the old version is stopped.
        """
        for _ in range(_LOOKS_AT_CHECKPOINT):
            path = self._engine.latest_checkpoint(old.job_id)
            if not path:
                break
            uids, most = self._engine.uids(new), new.settings().job.max_parallelism
            checked, read = checks.savepoint(self._cluster, path, uids, most)
            if read is not None:
                # Its files may go while one looks: the running job makes newer ones.
                return next(check for check in checked if check.name == "uids")
        return checks.warn(
            "uids",
            f"no checkpoint of job {old.job_id} could be looked at",
            "The savepoint is looked at before the new version starts from it.",
        )

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


def _import_root(path: Path) -> Path:
    # As Flink does with -pyfs: a module's folder, a package's parent, a zip itself.
    return path if path.suffix == ".zip" else path.parent
