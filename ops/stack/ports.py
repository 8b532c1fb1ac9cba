"""Free ports, each promised to one process at a time.

A port is chosen before somebody binds it, and two stacks that start at once met on one. So a chosen
port is locked, by a file that all of this machine's users share, until it has surely been bound.
"""

import fcntl
import os
import random
import socket
import tempfile
import time
from collections import deque
from pathlib import Path

from udfs.core.errors import StackError

# Below the kernel's range for outgoing connections (32768 and up on Linux), so that no connection
# takes a port between our choosing it and the process binding it.
_PORTS = range(20000, 32000)

_PLACE = Path(tempfile.gettempdir()) / "tablegate-ports"
# A JVM binds its ports within seconds, minutes on a machine that starves.
_HELD_S = 300.0
_held: deque[tuple[float, int]] = deque()


def free_ports(count: int) -> list[int]:
    """Ports on which nothing listens now, and which no other process was given lately.

    Raises:
        StackError: no free ones were found in a reasonable number of tries.
    """
    _let_go()
    ports: list[int] = []
    for port in random.sample(_PORTS, min(50 * count, len(_PORTS))):
        if _is_free(port) and _take(port):
            ports.append(port)
        if len(ports) == count:
            return ports
    raise StackError(
        f"Found {len(ports)} free ports of {count} between {_PORTS.start} and {_PORTS.stop}.",
        "Stop what listens there: see `ss -ltnp`.",
    )


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _take(port: int) -> bool:
    """Lock the port's file; the lock goes with this process, or with ``_let_go``."""
    _PLACE.mkdir(mode=0o1777, parents=True, exist_ok=True)
    try:
        handle = os.open(_PLACE / str(port), os.O_CREAT | os.O_RDWR, 0o666)
    except OSError:
        # Another user's file, say. The port is as good as any other.
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        return False
    _held.append((time.monotonic(), handle))
    return True


def _let_go() -> None:
    while _held and time.monotonic() - _held[0][0] > _HELD_S:
        os.close(_held.popleft()[1])
