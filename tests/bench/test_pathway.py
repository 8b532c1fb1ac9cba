from __future__ import annotations

from pathlib import Path

import pytest

from bench.systems.pathway import PathwayAsofNow
from tests.bench import peer
from tests.support.kafka import Kafka


@pytest.mark.cluster
@pytest.mark.full
# The first run installs it.
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("parallelism", [1, 2])
def test_joins_every_event_with_the_newest_row(
    kafka: Kafka, tmp_path: Path, parallelism: int
) -> None:
    peer.check(PathwayAsofNow(), kafka, tmp_path / "run", parallelism)
