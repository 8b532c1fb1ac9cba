"""`build/tablegate-udfs.zip`: the packages that the workers import, for `flink run -pyfs`.

Standard library only: `make setup` runs it before any package is installed.
"""

import hashlib
import uuid
import zipfile
from collections.abc import Iterable
from pathlib import Path

from ops.paths import ROOT, STAMPS, UDFS_ZIP

SHIPPED = ("jobs", "udfs")

# The oldest time that a zip can hold: the same sources give the same bytes.
_EPOCH = (1980, 1, 1, 0, 0, 0)


def sources(root: Path = ROOT) -> list[Path]:
    """Every file that the workers may import, sorted."""
    return sorted(
        path
        for package in SHIPPED
        for path in (root / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    )


def digest(paths: Iterable[Path], root: Path = ROOT, salt: str = "") -> str:
    """SHA-256 over names and contents, so that a touched but equal file changes nothing."""
    total = hashlib.sha256(salt.encode())
    for path in paths:
        content = hashlib.sha256(path.read_bytes()).hexdigest()
        total.update(f"{path.relative_to(root)}\0{content}\n".encode())
    return total.hexdigest()


def package(target: Path = UDFS_ZIP, root: Path = ROOT) -> bool:
    """Write the zip if the sources differ from those it was made of.

    Returns:
        True when it was written, False when it was up to date.
    """
    files = sources(root)
    stamp = (STAMPS if target == UDFS_ZIP else target.parent) / f"{target.name}.sha256"
    wanted = digest(files, root)
    if target.exists() and stamp.exists() and stamp.read_text() == wanted:
        return False
    target.parent.mkdir(parents=True, exist_ok=True)
    stamp.parent.mkdir(parents=True, exist_ok=True)
    # Two submissions may package at once: each writes its own file and the last rename wins.
    partial = target.with_name(f"{target.name}.{uuid.uuid4().hex}.tmp")
    with zipfile.ZipFile(partial, "w", zipfile.ZIP_DEFLATED) as out:
        for path in files:
            entry = zipfile.ZipInfo(str(path.relative_to(root)), _EPOCH)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            out.writestr(entry, path.read_bytes())
    partial.replace(target)
    stamp.write_text(wanted)
    return True
