"""Fixtures for every test. A test asks for `kafka` or `flink` and gets a real one, started once."""

from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from ops.stack.flink import FlinkCluster
from ops.stack.processes import ours
from tests.support import warm_client
from tests.support.kafka import Kafka, running_kafka

_CLUSTER_FIXTURES = {"kafka", "flink"}
_HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # Nobody has to remember the marker that keeps a slow test out of the fast run.
    for item in items:
        fixtures = set(getattr(item, "fixturenames", ()))
        if (_HERE / "cluster") in item.path.parents or fixtures & _CLUSTER_FIXTURES:
            item.add_marker(pytest.mark.cluster)


@pytest.fixture(scope="session")
def stack_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where this session's processes keep their files.

    After the tests no process that was started from below it, by whichever test, may be alive.
    """
    folder = tmp_path_factory.mktemp("stack")
    base = tmp_path_factory.getbasetemp()
    with warm_client.installed(folder / "client"):
        yield folder
    left = ours(base)
    names = [f"{process.pid} {' '.join(process.cmdline()[-3:])}" for process in left]
    for process in left:
        process.kill()
    psutil.wait_procs(left, timeout=10)
    assert not names, f"tests left processes running (killed now): {names}"


@pytest.fixture(scope="session")
def kafka(stack_folder: Path) -> Iterator[Kafka]:
    """A real Kafka for the whole session; topics get unique names."""
    with running_kafka(stack_folder / "kafka") as running:
        yield running


@pytest.fixture(scope="session")
def flink(stack_folder: Path) -> Iterator[FlinkCluster]:
    """A real Flink cluster for the whole session: two TaskManagers of one slot.

    A test that kills one of them, or the JobManager, starts it again before it ends.
    """
    with FlinkCluster(stack_folder / "flink", taskmanagers=2, high_availability=True) as cluster:
        yield cluster
