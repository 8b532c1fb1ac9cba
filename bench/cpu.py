"""CPU time of TaskManagers, told apart from that of their Python workers."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import NamedTuple

import psutil


class Cpu(NamedTuple):
    """CPU seconds so far."""

    taskmanager_s: float
    workers_s: float


def cpu(pids: Iterable[int]) -> Cpu:
    """Of the TaskManagers with these pids together, and of the processes below them."""
    own = workers = 0.0
    for pid in pids:
        process = psutil.Process(pid)
        times = process.cpu_times()
        own += times.user + times.system
        for child in process.children(recursive=True):
            # One that ends meanwhile is no error.
            with suppress(psutil.Error):
                times = child.cpu_times()
                workers += times.user + times.system
    return Cpu(own, workers)
