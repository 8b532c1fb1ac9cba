"""What a version is made of: the zip for the workers, the entry that comes out of it, its uids."""

from __future__ import annotations

import hashlib
import shutil
import sys
import types
import zipfile
from collections.abc import Iterable
from pathlib import Path

from jobs.settings import Settings
from ops.deploy.errors import DeployError
from ops.package import package as write_package
from ops.paths import UDFS_ZIP

_ENTRY = "jobs/enrich.py"
_UIDS = "jobs/uids.py"
# What Flink calls the operator that it puts behind a sink (SinkTransformationTranslator).
COMMITTER = "Sink Committer: "


def collect(target: Path, python_files: Iterable[Path]) -> tuple[str, tuple[str, ...]]:
    """Package this checkout, and copy the zip and the user's modules into ``target``.

    Returns:
        The names of both in there.

    Raises:
        DeployError: one of the user's modules does not exist, or two have one name.
    """
    write_package()
    target.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(UDFS_ZIP, target / UDFS_ZIP.name)
    names: list[str] = []
    for path in python_files:
        if not path.exists():
            raise DeployError(f"--python-file {path} does not exist.", "Correct the path.")
        if path.name in names:
            raise DeployError(f"Two --python-file are called {path.name}.", "Rename one.")
        if path.is_dir():
            shutil.copytree(path, target / path.name, dirs_exist_ok=True)
        else:
            shutil.copyfile(path, target / path.name)
        names.append(path.name)
    return UDFS_ZIP.name, tuple(names)


def entry(package: Path, folder: Path) -> Path:
    """The job's entry out of the package, written into ``folder``: a version brings its own."""
    path = folder / Path(_ENTRY).name
    path.write_bytes(_member(package, _ENTRY))
    return path


def uids(package: Path, settings: Settings) -> dict[str, str]:
    """Every uid that the package's version gives to an operator, to the operator's name.

    ``settings`` are that version's: they add outputs and leave operators out.

    Raises:
        DeployError: the package has no such file, or one that cannot be run.
    """
    module = types.ModuleType("tablegate_version_uids")
    # The module stays out of sys.modules but for the moment in which typing looks it up there.
    sys.modules[module.__name__] = module
    try:
        # Our own code, from the package that this version runs anyway.
        exec(compile(_member(package, _UIDS), f"{package}/{_UIDS}", "exec"), module.__dict__)  # noqa: S102
    except Exception as error:
        raise DeployError(
            f"{_UIDS} in {package} cannot be read: {type(error).__name__}: {error}.",
            "The package is not one of Tablegate's.",
        ) from error
    finally:
        del sys.modules[module.__name__]
    listed = vars(module)
    further = [listed["output"](f"also-{topic}") for topic in settings.output.also]
    named = _named([*listed.values(), *further])
    broadcast = settings.join.lookup_state == "broadcast"
    left_out: list[object] = [listed.get("JOIN") if broadcast else listed.get("BROADCAST_JOIN")]
    if not settings.miss.retry_after:
        left_out += [listed.get("RETRY_SIDE"), listed.get("RETRY_DELAY")]
    absent = set(_named(left_out))
    if not settings.stats.topic:
        # Written to nowhere, which needs nothing to commit.
        absent.add(f"{COMMITTER}stats-sink")
    return {uid: name for uid, name in named.items() if uid not in absent}


def _named(values: Iterable[object]) -> dict[str, str]:
    named: dict[str, str] = {}
    for value in values:
        for operator in (value,) if hasattr(value, "uid") else _several(value):
            uid, name = getattr(operator, "uid", None), getattr(operator, "name", "")
            if isinstance(uid, str):
                named[uid] = str(name)
                if uid.endswith("-sink"):
                    named[COMMITTER + uid] = f"{name}: Committer"
    return named


def _several(value: object) -> tuple[object, ...]:
    if isinstance(value, dict):
        return tuple(value.values())
    return value if isinstance(value, tuple) else ()


def code(folder: Path, package: str, python_files: Iterable[str]) -> str:
    """Digest of what the workers keep in memory: package `udfs`, and the user's modules."""
    total = hashlib.sha256()
    with zipfile.ZipFile(folder / package) as zipped:
        for name in sorted(zipped.namelist()):
            if name.startswith("udfs/") and name.endswith(".py"):
                total.update(f"{name}\n".encode())
                total.update(zipped.read(name))
    for name in sorted(python_files):
        path = folder / name
        for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            total.update(f"{file.relative_to(folder)}\n".encode())
            total.update(file.read_bytes())
    return total.hexdigest()[:16]


def _member(package: Path, name: str) -> bytes:
    try:
        with zipfile.ZipFile(package) as zipped:
            return zipped.read(name)
    except (OSError, KeyError, zipfile.BadZipFile) as error:
        raise DeployError(
            f"{package} has no {name}: {error}.",
            "The version's package is damaged; choose another version, or deploy this checkout.",
        ) from error
