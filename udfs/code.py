"""Which code this process has loaded: lets a worker tell that it is not the job's.

In thread mode all jobs of a TaskManager share one Python interpreter, and with it every module that
was imported once: a job that is upgraded in place is handed its new files and goes on with the old
ones (*measured* on Flink 2.3.0). Nothing else would notice.
"""

from __future__ import annotations

import hashlib
import importlib
import inspect
from importlib.resources import files
from importlib.resources.abc import Traversable
from types import ModuleType

from udfs.core.errors import StaleCodeError


def _digest_of_package() -> str:
    digest = hashlib.sha256()
    for name, source in sorted(_sources(files(__package__))):
        digest.update(f"{name}\n".encode())
        digest.update(source)
    return digest.hexdigest()[:16]


def _sources(folder: Traversable, path: str = "") -> list[tuple[str, bytes]]:
    found = []
    for entry in folder.iterdir():
        name = f"{path}/{entry.name}"
        if entry.is_dir():
            found += _sources(entry, name)
        elif entry.name.endswith(".py"):
            found.append((name, entry.read_bytes()))
    return found


LOADED = _digest_of_package()
"""Digest of the worker package's sources, taken when this process imported them."""


_DIGEST = "__tablegate_digest__"


def digest_of_module(name: str) -> str:
    """Digest of the source that module ``name`` was imported from, empty when there is none.

    Taken once for each imported module and kept with it: the file may be gone by the next attempt
    (Flink unpacks the job's files anew), or be another one's, while the module stays in memory.
    """
    module: ModuleType = importlib.import_module(name)
    known = getattr(module, _DIGEST, None)
    if known is None:
        try:
            known = hashlib.sha256(inspect.getsource(module).encode()).hexdigest()[:16]
        except (OSError, TypeError):
            known = ""
        setattr(module, _DIGEST, known)
    return str(known)


def require_same(what: str, expected: str, loaded: str) -> None:
    """Raises StaleCodeError when this process loaded other code than the job was submitted with."""
    if expected != loaded:
        raise StaleCodeError(
            f"This TaskManager has another version of {what} in memory ({loaded or 'unknown'}) "
            f"than this job was submitted with ({expected}): it ran another job before, and in "
            "thread mode a Python module stays loaded for the life of the process.",
            "Restart the TaskManagers, or give each deploy its own (application mode does).",
        )
