"""A million dead letters are read as a stream: what a replay needs does not grow with them."""

from __future__ import annotations

import pytest

from tests.support.letters import Letters

# Not getrusage: a process begins with what its parent had needed.
_MEASURED = """
import atexit, re, sys
from pathlib import Path
def tell():
    status = Path("/proc/self/status").read_text()
    sys.stderr.write(re.search(r"VmHWM:\\s+(\\d+) kB", status)[1])
atexit.register(tell)
"""
_DEADLINE_S = 240.0


@pytest.mark.full
def test_memory_stays_flat_however_many_letters_there_are(letters: Letters) -> None:
    few = peak_mib(letters, 30_000)
    many = peak_mib(letters, 300_000)
    # Measured: 30,000 letters, then ten times as many, each of some 400 bytes.
    assert many - few < 30, (few, many)


def peak_mib(letters: Letters, count: int) -> float:
    """The most that a replay of all letters holds, when there are ``count`` new ones."""
    letters.write(*(letters.letter(n, partition=n % 2) for n in range(count)))
    running = letters.start("--yes", prelude=_MEASURED)
    out, told = running.communicate(timeout=_DEADLINE_S)
    assert running.returncode == 0, told
    assert f"{count:,} dead letters" in out
    return int(told) / 1_024
