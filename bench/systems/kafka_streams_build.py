"""Builds the Kafka Streams peers with Maven, once."""

from __future__ import annotations

import fcntl
import subprocess
from pathlib import Path
from xml.etree import ElementTree as ET

from ops.package import digest
from ops.paths import BUILD

SOURCES = Path(__file__).with_name("kafka_streams")
TARGET = BUILD / "bench" / "kafka-streams"
CLASS_PATH = f"{TARGET / 'classes'}:{TARGET / 'lib'}/*"

_POM = SOURCES / "pom.xml"
_STAMP = TARGET / "stamp"


def build() -> None:
    """Compile and collect the jars, unless that was done of the same sources.

    Raises:
        RuntimeError: Maven is missing or failed; the error holds what it said.
    """
    TARGET.mkdir(parents=True, exist_ok=True)
    with (TARGET / "lock").open("w") as handle:
        # Two measurements may begin at once; Maven does not expect that.
        fcntl.flock(handle, fcntl.LOCK_EX)
        wanted = digest([_POM, *_files(SOURCES / "src")])
        if _STAMP.exists() and _STAMP.read_text() == wanted:
            return
        _STAMP.unlink(missing_ok=True)
        for left in (*_files(TARGET / "classes"), *_files(TARGET / "lib")):
            # A class without source any more, or a jar of another version, would win by chance.
            left.unlink()
        _maven()
        _STAMP.write_text(wanted)


def versions() -> dict[str, str]:
    """What is measured, by the pom; RocksDB by the jar that Kafka Streams brought along."""
    found = {"kafka-streams": _property("kafka.version")}
    for jar in (TARGET / "lib").glob("rocksdbjni-*.jar"):
        found["rocksdb"] = jar.stem.partition("-")[2]
    return found


def _maven() -> None:
    command = ["mvn", "-B", "-q", "-f", str(_POM), "process-classes"]
    try:
        done = subprocess.run(command, check=False, capture_output=True, text=True)
    except FileNotFoundError as error:
        raise RuntimeError("`mvn` is not on the PATH: install Maven and a JDK 17.") from error
    if done.returncode:
        raise RuntimeError(
            f"`{' '.join(command)}` exited with {done.returncode}:\n{done.stdout}{done.stderr}"
        )


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def _property(name: str) -> str:
    found = ET.parse(_POM).find(f".//{{*}}{name}")  # noqa: S314  (our own file)
    if found is None or not found.text:
        raise RuntimeError(f"{_POM} states no {name}")
    return found.text
