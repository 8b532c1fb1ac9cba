"""The hit rate's arithmetic."""

from __future__ import annotations

import pytest

from udfs.core.hitrate import COUNTED, Later, Tally, report, window_of
from udfs.core.model import Verdict


@pytest.mark.parametrize(
    ("counts", "rate_bp"),
    [
        ({}, None),
        ({"NO_KEY": 5, "BAD_RECORD": 2}, None),
        ({"HIT": 3}, 10_000),
        ({"NOT_FOUND": 3}, 0),
        ({"HIT": 97, "NOT_FOUND": 3}, 9_700),
        ({"HIT": 1, "NOT_FOUND": 1, "DELETED": 1, "NOT_LOADED": 1, "STALE_TABLE": 1}, 2_000),
        # No rounding hides a miss.
        ({"HIT": 999_999, "DELETED": 1}, 9_999),
        # What came later, or was no event, is no part of it.
        ({"HIT": 1, "RETRIED_HIT": 7, "RETRIED_MISS": 9, "GIVEN_UP": 4, "BAD_ROW": 3}, 10_000),
    ],
)
def test_the_rate_is_hits_of_hits_and_misses(counts: dict[str, int], rate_bp: int | None) -> None:
    assert Tally(counts).rate_bp == rate_bp


@pytest.mark.parametrize(
    ("at_ms", "start_ms"), [(1, 0), (1_000, 0), (10_000, 0), (10_001, 10_000), (20_000, 10_000)]
)
def test_a_window_ends_with_its_last_millisecond(at_ms: int, start_ms: int) -> None:
    assert window_of(at_ms, 10_000) == start_ms


def test_a_report_names_everything_that_is_counted_also_what_did_not_happen() -> None:
    found = report("orders-enrich", 20_000, 10_000, Tally({"HIT": 3, "DELETED": 1}))
    counts = found.pop("counts")
    assert found == {
        "job": "orders-enrich",
        "window_start_ms": 20_000,
        "window_end_ms": 30_000,
        "hits": 3,
        "misses": 1,
        "hit_rate_bp": 7_500,
    }
    assert set(counts) == {*Verdict, *Later} == set(COUNTED)
    assert {what: count for what, count in counts.items() if count} == {"HIT": 3, "DELETED": 1}
