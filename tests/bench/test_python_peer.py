from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

from bench.systems import python_peer
from bench.systems.contract import Work
from bench.systems.pathway import PathwayAsofNow
from bench.systems.python_peer import PythonPeer
from bench.systems.quix import QuixJoinAsof
from ops.stack.processes import wait_until

_FOLDERS = sorted(path.parent for path in Path(python_peer.__file__).parent.glob("*/*.in"))


def _work(place: Path) -> Work:
    return Work("127.0.0.1:9092", "a-run", "events", "rows", "enriched", place)


@pytest.fixture
def peer(tmp_path: Path) -> PythonPeer:
    """A peer whose program is a small one of this test, in this environment."""
    made = PythonPeer("quix_join_asof", "quixstreams")
    made.sources, made.python = tmp_path / "sources", Path(sys.executable)
    made.sources.mkdir()
    return made


def test_a_job_is_told_its_topics_and_a_folder_for_its_state() -> None:
    told = json.loads(python_peer.argument(_work(Path("/run")), Path("/run/state/job-0")))
    assert told == {
        "brokers": "127.0.0.1:9092",
        "name": "a-run",
        "stream": "events",
        "table": "rows",
        "enriched": "enriched",
        "state": "/run/state/job-0",
    }


def test_a_version_is_that_of_the_whole_name() -> None:
    lock = "aiokafka==1.0 \\\n    --hash=sha256:0\nkafka==2.0 \\\n    # via kafka==3.0\n"
    assert python_peer.locked_version(lock, "kafka") == "2.0"
    with pytest.raises(ValueError, match="pulsar is not in"):
        python_peer.locked_version(lock, "pulsar")


def test_state_is_counted_in_all_folders(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "rows").write_bytes(bytes(700))
    (tmp_path / "offsets").write_bytes(bytes(24))
    assert python_peer.folder_bytes(tmp_path) == 724


@pytest.mark.parametrize("folder", _FOLDERS, ids=lambda folder: folder.name)
def test_every_dependency_is_locked_by_hash_and_has_a_reason(folder: Path) -> None:
    wanted = (folder / "requirements.in").read_text().splitlines()
    lock = (folder / "requirements.lock").read_text()
    packages = [at for at, line in enumerate(wanted) if not line.startswith("#")]
    for at in packages:
        name, version = wanted[at].split("==")
        assert at > 0
        assert wanted[at - 1].startswith("# ")
        assert python_peer.locked_version(lock, name) == version
    pins = re.findall(r"^\S+==\S+ \\\n(    --hash=sha256:[0-9a-f]{64})?", lock, re.MULTILINE)
    assert len(pins) >= len(packages)
    assert all(pins)
    assert "://" not in lock


def test_the_peers_say_what_they_are_made_of() -> None:
    assert set(QuixJoinAsof().versions()) == {"quixstreams", "python"}
    assert set(PathwayAsofNow().versions()) == {"pathway", "python"}


def test_processes_are_found_stopped_and_gone(peer: PythonPeer, tmp_path: Path) -> None:
    (peer.sources / "job.py").write_text("import signal\nprint('up')\nsignal.pause()\n")
    run = peer.start(_work(tmp_path / "run"), processes=2)
    with run:
        assert len(run.pids()) == 2
        assert run.problem() is None
        assert run.state_bytes() is None
        run.stop()
        assert run.pids() == []
    run.close()


def test_a_process_that_died_is_named_with_its_last_words(peer: PythonPeer, tmp_path: Path) -> None:
    (peer.sources / "job.py").write_text("import sys\nsys.exit('no broker')\n")
    with peer.start(_work(tmp_path / "run"), processes=1) as run:
        wait_until(
            lambda: run.problem() is not None, deadline_s=20, what="exit", give_up=lambda: None
        )
        assert "job-0 is not running" in str(run.problem())
        assert "no broker" in str(run.problem())
        with pytest.raises(RuntimeError, match="no broker"):
            run.stop()
