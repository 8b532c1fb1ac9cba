"""Quix Streams: ``join_asof`` on RocksDB, behind a ``group_by`` that repartitions the events."""

from __future__ import annotations

from typing import ClassVar

from bench.systems.contract import Run, System, Work
from bench.systems.python_peer import PythonPeer

_PEER = PythonPeer("quix_join_asof", "quixstreams")


class QuixJoinAsof(System):
    """As many processes of one consumer group as the work's parallelism says."""

    name: ClassVar[str] = "quix-join-asof"
    about: ClassVar[str] = (
        "Quix Streams, group_by and join_asof on RocksDB with a changelog, linger 50 ms"
    )
    # It reads rows and events in the order of their timestamps, as far as both have arrived, and
    # says that this is no guarantee.
    gated: ClassVar[bool] = False
    restarts: ClassVar[bool] = True

    def versions(self) -> dict[str, str]:
        """Quix Streams' and Python's."""
        return _PEER.versions()

    def prepare(self) -> None:
        """Make its environment below build/bench."""
        _PEER.prepare()

    def start(self, work: Work) -> Run:
        """Start its processes."""
        return _PEER.start(work, processes=work.parallelism)
