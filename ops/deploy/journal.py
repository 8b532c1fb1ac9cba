"""The journal of deploys: what was started when, from what, and how it ended.

::

    build/deployments/JOB/
      0001.json       number, time, config text, overrides, job id, savepoints, result, reason
      0001/           tablegate-udfs.zip and the user's modules, as they were submitted
      lock            held by the command that is at work

One file for each start; a rollback is a start too and gets a number of its own. A file is written
before each step that it tells of, so that an interrupted command leaves the truth behind. Config
texts hold ``${env:NAME}`` where a secret belongs, never its value (`ops.deploy.secrets`).
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import tempfile
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from pathlib import Path

from jobs.settings import Settings, load
from ops.deploy.errors import DeployError, Exit
from ops.paths import BUILD

FOLDER = Path(os.environ.get("TABLEGATE_DEPLOYMENTS", BUILD / "deployments"))
"""Where the journals of all jobs stand unless told otherwise."""

_FILE = re.compile(r"(\d{4,})\.json")
# Of a job's folder, and so of all that is in it: a secret that no rule knows is nobody else's.
_OWNERS = 0o700


class Result(StrEnum):
    """What became of a version."""

    # Submitted, or about to be; not ready yet.
    STARTING = "starting"
    # Ready once, and the current one.
    RUNNING = "running"
    # Submitted and running, without having become ready in time.
    NOT_READY = "not ready"
    # Another version took over from its savepoint.
    REPLACED = "replaced"
    # It did not become ready, or could not be submitted, and was taken away.
    FAILED = "failed"


_LIVING = frozenset({Result.STARTING, Result.RUNNING, Result.NOT_READY})


@dataclass(frozen=True, slots=True)
class Version:
    """One start of a job. Times are milliseconds since the epoch; paths as Flink writes them."""

    number: int
    job: str
    """The job's name, which a folder's name may not be able to hold."""
    action: str
    """deploy, upgrade, reload, rollback, rescale, rescale in place."""
    at_ms: int
    config: str
    overrides: tuple[str, ...] = ()
    package: str = ""
    """Name of the zip in the version's folder."""
    python_files: tuple[str, ...] = ()
    """Names of the user's modules in the version's folder."""
    code: str = ""
    """Digest of what the workers load: another one needs other TaskManagers in thread mode."""
    copy_of: int | None = None
    """The version that a rollback started again."""
    job_id: str = ""
    started_from: str = ""
    stopped_with: str = ""
    """The savepoint taken when this version was stopped."""
    stopped_at_ms: int | None = None
    result: Result = Result.STARTING
    reason: str = ""

    @property
    def folder(self) -> str:
        """Name of the folder with its files."""
        return f"{self.number:04d}"

    def settings(self, extra: Sequence[str] = ()) -> Settings:
        """The settings of this version, ``extra`` overrides laid over its own.

        Raises:
            ConfigErrors: its environment variables are not set here, say.
        """
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "config.toml"
            path.write_text(self.config)
            return load(path, (*self.overrides, *extra))

    def stopped(self, savepoint: str, at_ms: int) -> Version:
        """This version, stopped with a savepoint."""
        return replace(self, stopped_with=savepoint, stopped_at_ms=at_ms)

    def ended(self, result: Result, reason: str = "") -> Version:
        """This version with what became of it."""
        return replace(self, result=result, reason=reason)


def current(versions: Sequence[Version]) -> Version | None:
    """The version that should be running: the last one that nothing replaced. None: there is none.

    A version that was stopped while its successor was never submitted is still the current one: the
    command was interrupted between the two.
    """
    living = [
        version
        for version in versions
        if version.result in _LIVING and (version.job_id or version.result is not Result.STARTING)
    ]
    return living[-1] if living else None


def before(versions: Sequence[Version], number: int) -> Version | None:
    """The last version before ``number`` that had run and was replaced: where a rollback goes.

    Starts that went back to an older version count as that version: from 3, started as a copy of 1,
    the way back does not lead to the 2 that was just left.
    """
    start = next((v for v in versions if v.number == number), None)
    origin = number if start is None or start.copy_of is None else start.copy_of
    ran = [
        version
        for version in versions
        if version.number < min(origin, number) and version.result is Result.REPLACED
    ]
    return ran[-1] if ran else None


def target_of_rollback(versions: Sequence[Version], to: int | None) -> Version:
    """The version that a rollback starts again.

    Raises:
        DeployError: there is none, or none of that number.
    """
    if to is not None:
        for version in versions:
            if version.number == to:
                return version
        raise DeployError(
            f"There is no version {to}.", "`tablegate deployments` lists them.", Exit.REFUSED
        )
    now = current(versions)
    last = now or (versions[-1] if versions else None)
    found = before(versions, last.number) if last else None
    if found is None:
        raise DeployError(
            "There is no earlier version that ran.",
            "`tablegate deployments` lists them; choose one with --to.",
            Exit.REFUSED,
        )
    return found


class Journal:
    """The versions of one job, in one folder."""

    def __init__(self, job: str, folder: Path | None = None) -> None:
        # A job's name may hold what a folder's cannot.
        safe = re.sub(r"[^\w.-]", "_", job).lstrip(".") or "_"
        self.job = job
        self.folder = (folder or FOLDER) / safe
        self._lock: int | None = None

    def versions(self) -> list[Version]:
        """All versions by number.

        Raises:
            DeployError: a file is not one of ours.
        """
        paths = [path for path in self.folder.glob("*.json") if _FILE.fullmatch(path.name)]
        found = sorted((_read(path) for path in paths), key=lambda version: version.number)
        if found and found[-1].job != self.job:
            raise DeployError(
                f"{self.folder} is the journal of job {found[-1].job}, and the folder of "
                f"{self.job} would have the same name.",
                "Give one of the two another job.name, or another --journal.",
                Exit.REFUSED,
            )
        return found

    def next_number(self) -> int:
        """The number of the next start."""
        versions = self.versions()
        return versions[-1].number + 1 if versions else 1

    def files(self, version: Version) -> Path:
        """The folder of the version's package and modules."""
        return self.folder / version.folder

    def copy_files(self, source: Version, target: Version) -> None:
        """Give ``target`` the package and the modules of ``source``."""
        shutil.rmtree(self.files(target), ignore_errors=True)
        shutil.copytree(self.files(source), self.files(target))

    def write(self, version: Version) -> Version:
        """Write the version's file, whole or not at all, and return the version."""
        self.folder.mkdir(_OWNERS, parents=True, exist_ok=True)
        path = self.folder / f"{version.folder}.json"
        partial = path.with_name(f"{path.name}.{uuid.uuid4().hex}.tmp")
        with partial.open("w") as out:
            json.dump(asdict(version), out, indent=1)
            out.flush()
            # Written before the step that it tells of: it must outlive a crash in that step.
            os.fsync(out.fileno())
        partial.replace(path)
        return version

    def take_over(self, new: Version) -> Version:
        """Write ``new`` as the version that is in charge from here on; all before it are not."""
        self.write(new)
        for other in self.versions():
            if other.number != new.number and other.result in _LIVING:
                reason = other.reason or f"version {new.number} took over"
                self.write(other.ended(Result.REPLACED, reason))
        return new

    @property
    def lock_files(self) -> tuple[int, ...]:
        """What a child has to inherit to hold the lock for as long as it lives, also without us."""
        return () if self._lock is None else (self._lock,)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Held while a command changes the job.

        Raises:
            DeployError: another command is at it.
        """
        self.folder.mkdir(_OWNERS, parents=True, exist_ok=True)
        with (self.folder / "lock").open("w") as handle:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise DeployError(
                    f"Another tablegate command is at work on job {self.job}"
                    f" ({self.folder / 'lock'} is held).",
                    "Wait until it is done.",
                    Exit.REFUSED,
                ) from None
            self._lock = handle.fileno()
            try:
                yield
            finally:
                self._lock = None


def jobs_in(folder: Path | None = None) -> list[str]:
    """Names of the jobs that have a journal in ``folder``.

    Of a journal that cannot be read it is the folder's name.
    """
    names = []
    for place in sorted({path.parent for path in (folder or FOLDER).glob("*/[0-9]*.json")}):
        try:
            names.append(_read(max(place.glob("[0-9]*.json"))).job)
        except DeployError:
            names.append(place.name)
    return names


def _read(path: Path) -> Version:
    try:
        data = json.loads(path.read_text())
        data["overrides"] = tuple(data["overrides"])
        data["python_files"] = tuple(data["python_files"])
        data["result"] = Result(data["result"])
        return Version(**data)
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise DeployError(
            f"{path} is not a version that this Tablegate wrote: {error}.",
            "Restore the file from a backup, or move it away.",
        ) from error


def now_ms() -> int:
    """The wall clock, in milliseconds since the epoch."""
    return time.time_ns() // 1_000_000
