"""Pathway: ``asof_now_join_left`` of a stream with the newest rows, in memory, in a Rust engine.

The second Python peer: of the frameworks that are kept and can do the job, the one that joins in
native code. The others that were tried: Faust (its maintained fork, with tables on RocksDB) runs
too, but needs several times the CPU time of Quix Streams for an event, all of it in one thread's
Python; Bytewax has had no release since November 2024.

It keeps nothing over a restart: its snapshots of operators need a licence key, and without one it
can only record every event and read all of them again, which no long-running job would do.
"""

from __future__ import annotations

from typing import ClassVar

from bench.systems.contract import Run, System, Work
from bench.systems.python_peer import PythonPeer

_PEER = PythonPeer("pathway_asof_now", "pathway")


class PathwayAsofNow(System):
    """One process with as many worker threads as the work's parallelism says."""

    name: ClassVar[str] = "pathway-asof-now"
    about: ClassVar[str] = (
        "Pathway, asof_now_join_left in memory (Rust engine), no persistence, batches of 100 ms"
    )
    gated: ClassVar[bool] = False
    restarts: ClassVar[bool] = False

    def versions(self) -> dict[str, str]:
        """Pathway's and Python's."""
        return _PEER.versions()

    def prepare(self) -> None:
        """Make its environment below build/bench: 1.3 GB."""
        _PEER.prepare()

    def start(self, work: Work) -> Run:
        """Start its process."""
        return _PEER.start(work, processes=1, env={"PATHWAY_THREADS": str(work.parallelism)})
