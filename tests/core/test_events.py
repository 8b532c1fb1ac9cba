"""Headers of records that are set aside: what is added, what counts up, what stays."""

import pytest

from udfs.core.events import (
    EventReader,
    own_timestamp_ms,
    record_bytes,
    set_aside_headers,
    without_ours,
)
from udfs.core.keys import KeyFormat, KeyOrigin, KeyRule
from udfs.core.model import DELETED_ROW, Verdict, verdict_for


def test_the_verdict_follows_from_the_row_state() -> None:
    assert verdict_for(None) is Verdict.NOT_FOUND
    assert verdict_for(DELETED_ROW) is Verdict.DELETED
    assert verdict_for(b'{"tier":null}') is Verdict.HIT
    assert verdict_for(b"{}") is Verdict.HIT


def test_own_headers_stay_and_ours_are_added() -> None:
    headers = set_aside_headers(
        {"trace-id": b"t", "tablegate-timestamp": b"a stranger's"},
        Verdict.NOT_FOUND,
        "orders[2]@7",
        1234,
        timestamp_ms=99,
    )
    assert headers == {
        "trace-id": b"t",
        "tablegate-verdict": b"NOT_FOUND",
        "tablegate-source": b"orders[2]@7",
        "tablegate-attempt": b"1",
        "tablegate-first-seen": b"1234",
        "tablegate-timestamp": b"99",
    }


def test_a_record_without_a_timestamp_gets_no_header_for_it() -> None:
    headers = set_aside_headers(None, Verdict.NO_KEY, "orders[2]@7", 1234, timestamp_ms=-1)
    assert "tablegate-timestamp" not in headers


@pytest.mark.parametrize(
    ("headers", "own"),
    [
        ({"tablegate-timestamp": b"99"}, 99),
        ({"tablegate-timestamp": b"-99"}, 1234),
        ({"tablegate-timestamp": b"9" * 19}, 1234),
        ({"tablegate-timestamp": b""}, 1234),
        ({}, 1234),
        (None, 1234),
    ],
)
def test_the_event_s_own_timestamp_is_that_of_the_header_if_there_is_one(
    headers: dict[str, bytes] | None, own: int
) -> None:
    assert own_timestamp_ms(headers, 1234) == own


def test_a_record_that_comes_round_again_counts_up_and_keeps_its_first_time() -> None:
    once = set_aside_headers(
        None, Verdict.BAD_RECORD, "orders[0]@1", 1000, "orders[0]@1: bad", timestamp_ms=99
    )
    twice = set_aside_headers(once, Verdict.DELETED, "orders[0]@9", 5000, timestamp_ms=99)
    assert twice["tablegate-attempt"] == b"2"
    assert twice["tablegate-first-seen"] == b"1000"
    assert twice["tablegate-verdict"] == b"DELETED"
    assert "tablegate-error" not in twice


def test_a_stranger_s_attempt_header_counts_as_none() -> None:
    for text in (b"x", b"", b"-1", b"9" * 5000):
        headers = set_aside_headers(
            {"tablegate-attempt": text}, Verdict.NO_KEY, "o[0]@0", 1, timestamp_ms=99
        )
        assert headers["tablegate-attempt"] == b"1"


def test_what_strangers_wrote_into_our_headers_does_not_make_a_record_unreadable() -> None:
    own = {"tablegate-attempt": b"9" * 9, "tablegate-first-seen": b"yesterday"}
    headers = set_aside_headers(own, Verdict.NOT_FOUND, "o[0]@0", 1234, timestamp_ms=1)
    assert headers["tablegate-attempt"] == b"9" * 9
    assert headers["tablegate-first-seen"] == b"1234"


def test_that_an_event_came_late_out_of_another_job_stays_on_it() -> None:
    assert without_ours({"tablegate-late": b"1", "tablegate-due": b"1"}) == {"tablegate-late": b"1"}


def test_a_key_in_the_record_key_does_not_excuse_an_unreadable_value() -> None:
    reader = EventReader(KeyRule(KeyOrigin.KEY, KeyFormat.TEXT))
    key, fields = reader.read(b"c1", b'{"a":1}')
    assert key == "c1"
    assert set(fields) == {"a"}


def test_an_error_is_cut_and_always_written() -> None:
    error = "bad \udc80" + "9" * 600_000
    headers = set_aside_headers(None, Verdict.BAD_RECORD, "o[0]@0", 1, error, timestamp_ms=1)
    assert headers["tablegate-error"].startswith(b"bad \\udc809999")
    assert len(headers["tablegate-error"]) < 1000


def test_a_record_that_is_through_loses_our_headers_and_keeps_its_own() -> None:
    own = {"trace": b"1"}
    assert (
        without_ours(set_aside_headers(own, Verdict.NOT_FOUND, "o[0]@0", 1, timestamp_ms=1)) == own
    )
    assert (
        without_ours(set_aside_headers(None, Verdict.NOT_FOUND, "o[0]@0", 1, timestamp_ms=1))
        is None
    )
    assert without_ours(own) is own
    assert without_ours(None) is None


def test_that_it_was_replayed_is_told_until_it_is_through() -> None:
    replayed = {"trace": b"1", "tablegate-replayed": b"orders.dead[0]@12"}
    again = set_aside_headers(replayed, Verdict.NOT_FOUND, "o[0]@0", 1, timestamp_ms=1)
    assert again["tablegate-replayed"] == b"orders.dead[0]@12"
    assert without_ours(again) == {"trace": b"1"}


def test_the_size_of_a_record_counts_key_value_and_headers() -> None:
    assert record_bytes(None, None, None) == 0
    assert record_bytes(b"ab", b"cde", {"h": b"1234", "n": b""}) == 5 + (1 + 4 + 10) + (1 + 10)
