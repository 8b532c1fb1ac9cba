"""Looks at everything that a new version needs, before anything is touched, and shows it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable
from pathlib import Path

from jobs.preflight import ClusterFacts
from jobs.settings import Settings
from ops.cluster import Cluster
from ops.deploy import checks, savepoints
from ops.deploy.checks import Check
from ops.deploy.engine import FlinkEngine, Workers
from ops.deploy.journal import Journal, Version, now_ms
from ops.deploy.secrets import Scrubber
from ops.paths import VENV_PYTHON
from ops.status.model import Status

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


class Preflight:
    """The checks of one command.

    Args:
        cluster: where the job runs.
        journal: the job's.
        engine: asks the cluster.
        workers: how the workers run Python.
        restarts_workers: whether something restarts the TaskManagers when their code changed.
        printer: is shown each check.
    """

    def __init__(
        self,
        cluster: Cluster,
        journal: Journal,
        engine: FlinkEngine,
        workers: Workers,
        *,
        restarts_workers: bool,
        printer: Printer,
    ) -> None:
        self._cluster = cluster
        self._journal = journal
        self._engine = engine
        self._workers = workers
        self._restarts_workers = restarts_workers
        self._printer = printer

    def run(
        self,
        new: Version,
        *,
        savepoint: str,
        old: Version | None,
        beside: bool,
        taken_ms: int | None = None,
    ) -> list[Check]:
        """Every check of a new version, each shown as it is done.

        Args:
            new: the version.
            savepoint: where it shall start from; "" where that is not known yet.
            old: the current version, if any.
            beside: whether the old one runs on while the new one loads its table.
            taken_ms: when the savepoint was taken, if known; milliseconds since the epoch.
        """
        found: list[Check] = []

        def add(more: Iterable[Check]) -> None:
            for check in more:
                self._printer.check(check)
                found.append(check)

        settings = new.settings()
        add([self._package(new)])
        checked, facts = checks.topics(settings)
        add(checked)
        add(checks.transactions(settings) if facts else [])
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

    def state_belongs(self, new: Version, old: Version) -> Check:
        """Whether the new version's settings are for the state that the old one has."""
        found = checks.same_state(old.settings(), new.settings())
        self._printer.check(found)
        return found

    def state_of_running(self, new: Version, old: Version) -> Check:
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
                found = next(check for check in checked if check.name == "uids")
                self._printer.check(found)
                return found
        found = checks.warn(
            "uids",
            f"no checkpoint of job {old.job_id} could be looked at",
            "The savepoint is looked at before the new version starts from it.",
        )
        self._printer.check(found)
        return found


def _import_root(path: Path) -> Path:
    # As Flink does with -pyfs: a module's folder, a package's parent, a zip itself.
    return path if path.suffix == ".zip" else path.parent
