"""What the demo makes of the audits."""

from __future__ import annotations

from jobs.sql.findings import Finding
from ops.demo.audits import Found, problems, summary


def _found(ungated: int, gated: int) -> Found:
    return {
        "ungated": [Finding("wrong_nulls", "A miss.", ungated), Finding("labels", "", 0)],
        "gated": [Finding("wrong_nulls", "A miss.", gated)],
    }


def test_an_ungated_job_that_is_caught_and_ours_that_is_not_is_right() -> None:
    assert problems(_found(7, 0), 9) == []


def test_anything_found_in_ours_is_wrong() -> None:
    (said,) = problems(_found(7, 1_000), 9)
    assert said == "the audit wrong_nulls found 1,000 rows in ours: A miss."


def test_an_audit_that_does_not_catch_what_was_lost_is_wrong() -> None:
    (said,) = problems(_found(0, 0), 9)
    assert "which lost 9 orders" in said
    assert problems(_found(0, 0), 0) == []


def test_the_summary_has_counts_by_job_and_audit() -> None:
    assert summary(_found(7, 0)) == {
        "ungated": {"wrong_nulls": 7, "labels": 0},
        "gated": {"wrong_nulls": 0},
    }
