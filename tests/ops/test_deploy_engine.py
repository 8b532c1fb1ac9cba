"""What the real engine hands on of what others say."""

from __future__ import annotations

import subprocess
import zipfile
from pathlib import Path

import pytest

from ops.cluster import RemoteCluster
from ops.deploy.engine import FlinkEngine, Workers
from ops.deploy.errors import DeployError
from ops.deploy.journal import Journal, Version
from ops.status.model import Status


class Refusing(RemoteCluster):
    """A cluster whose `flink run` prints what it was told, secrets too, and fails."""

    def flink(self, *arguments: str, timeout_s: float = 180) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess(arguments, 1, "login with hunter2 failed\n", "")


def test_what_the_client_prints_is_scrubbed_before_anybody_sees_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PW", "hunter2")
    journal = Journal("orders", tmp_path)
    version = Version(1, "orders", "deploy", 1, 'x = "${env:PW}"', package="p.zip")
    folder = journal.files(version)
    folder.mkdir(parents=True)
    with zipfile.ZipFile(folder / "p.zip", "w") as zipped:
        zipped.writestr("jobs/enrich.py", "")

    def each(_status: Status) -> None:
        pass

    engine = FlinkEngine(
        Refusing("http://localhost:1", home=tmp_path),
        journal,
        Workers(),
        savepoint_timeout_s=1,
        say=print,
        each=each,
    )
    with pytest.raises(DeployError, match=r"login with \*\*\* failed") as caught:
        engine.submit(version, "", table_only=False)
    error: BaseException | None = caught.value
    while error is not None:
        assert "hunter2" not in str(error)
        error = error.__cause__ or error.__context__
    assert "hunter2" not in "".join(p.read_text() for p in folder.iterdir() if p.suffix != ".zip")
