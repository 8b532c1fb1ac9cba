"""Why a partition is short, in words."""

import pytest

from udfs.core.gate import Target
from udfs.core.stall import PartitionNow, moved_back, short_partition, why_short

TARGET = Target(begin=0, end=10, last=9)


@pytest.mark.parametrize(
    ("now", "reason"),
    [
        (PartitionNow(end=10, stable_end=4), "a transaction that began at or before offset 4"),
        (PartitionNow(end=10, stable_end=10), "the table's source does not deliver them"),
        (PartitionNow(end=8, stable_end=8), "its log end moved back to 8"),
        (PartitionNow(end=None, stable_end=None), "its leader does not answer"),
        (PartitionNow(end=None, stable_end=None, leaderless=True), "it has no leader"),
    ],
)
def test_the_reason_follows_from_what_the_brokers_say(now: PartitionNow, reason: str) -> None:
    assert reason in why_short(TARGET, 3, now)


def test_a_log_that_ends_below_the_progress_moved_back_too() -> None:
    assert moved_back(Target(0, 3, 2), reached=20, end=15)
    assert not moved_back(TARGET, reached=3, end=10)


def test_a_line_names_the_partition_and_what_is_left() -> None:
    line = short_partition("products", 2, TARGET, 3, PartitionNow(10, 10))
    assert line.startswith("products[2] is 6 offsets short of 9 (read up to offset 3): ")
    line = short_partition("products", 2, Target(7, 10, 9), -1, PartitionNow(10, 10))
    assert line.startswith("products[2] is 3 offsets short of 9 (nothing read): ")
