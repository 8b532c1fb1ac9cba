"""Prometheus and promtool for the tests, out of Debian's package; no service, no root.

Tablegate does not run a Prometheus. Its rules and its dashboard are tested with one, and its own
projects' releases are not in a package index that `make setup` reads. Standard library only,
because `make setup` imports this before any package is installed.
"""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from ops.paths import PROMETHEUS

_PACKAGE = "prometheus"
_PROGRAMS = ("prometheus", "promtool")
_REASON = "why-not.txt"
_TIMEOUT_S = 300


class UnavailableError(Exception):
    """There is no Prometheus for the tests; the message says why and what to do."""


def fetch(folder: Path = PROMETHEUS) -> bool:
    """Unpack the two programs into ``folder``, or write there why that did not work.

    apt checks the package's signature. Nothing is installed: a Debian package's installation would
    start a service on port 9090.

    Returns:
        Whether the programs are there now.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            _unpack(Path(scratch), folder)
    except (UnavailableError, OSError, subprocess.TimeoutExpired) as error:
        (folder / _REASON).write_text(f"{error}\n")
        return False
    return True


def program(name: str, folder: Path = PROMETHEUS) -> Path:
    """Where ``prometheus`` or ``promtool`` is: of `make setup`, else on the PATH.

    Raises:
        UnavailableError: it is in neither place.
    """
    if (folder / name).exists():
        return folder / name
    if found := shutil.which(name):
        return Path(found)
    reason = folder / _REASON
    why = reason.read_text().strip() if reason.exists() else "`make setup` did not look for it yet"
    raise UnavailableError(
        f"There is no {name}: {why}. Put one on the PATH, or delete {folder} and run `make setup`."
    )


def _unpack(scratch: Path, folder: Path) -> None:
    if not (shutil.which("apt-get") and shutil.which("dpkg")):
        raise UnavailableError("this system has no apt-get and dpkg to fetch it with")
    try:
        _call(("apt-get", "download", _PACKAGE), scratch)
    except UnavailableError:
        # A fresh container has no list of packages: one of our own, which needs no root.
        own = scratch / "lists"
        (own / "partial").mkdir(parents=True)
        options = ("-o", f"Dir::State::Lists={own}", "-o", f"Dir::Cache={scratch / 'cache'}")
        _call(("apt-get", *options, "update"), scratch)
        _call(("apt-get", *options, "download", _PACKAGE), scratch)
    (package,) = scratch.glob(f"{_PACKAGE}_*.deb")
    _call(("dpkg", "-x", str(package), str(scratch / "root")), scratch)
    for name in _PROGRAMS:
        shutil.move(scratch / "root" / "usr" / "bin" / name, folder / name)


def _call(command: Sequence[str], where: Path) -> None:
    done = subprocess.run(
        command,
        cwd=where,
        check=False,
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_S,
        env={**os.environ, "LC_ALL": "C"},
    )
    if done.returncode:
        *_, last = done.stderr.strip().splitlines() or ["it said nothing"]
        raise UnavailableError(f"`{' '.join(command)}` exited with {done.returncode}: {last}")
