"""What headers say, which letters are meant, and what a replay makes of each."""

from __future__ import annotations

import pytest

from ops.retry.errors import Exit, RetryError
from ops.retry.filters import Fate, Filter, Judge, parse_filter, parse_moment
from ops.retry.letters import (
    Headers,
    Letter,
    Place,
    read_letter,
    readable,
    replayed_headers,
    sent_again,
)
from ops.retry.replay import Destination
from udfs.core.events import set_aside_headers
from udfs.core.model import Verdict

NOW_MS = 1_700_000_000_000
AT = Place("orders.dead", 0, 12)
OURS = set_aside_headers(
    {"own": b"1"},
    Verdict.NOT_FOUND,
    "orders[2]@7",
    NOW_MS,
    "orders[2]@7: no row",
    5,
    timestamp_ms=99,
)


def letter(headers: dict[str, bytes] | None = None, *, replayed: bool = False) -> Letter:
    found = OURS if headers is None else headers
    return read_letter(AT, b"o1", list(found.items()), replayed=replayed)


def test_what_the_job_writes_is_read_as_it_is_meant() -> None:
    assert letter() == Letter(
        place=AT,
        verdict="NOT_FOUND",
        source=Place("orders", 2, 7),
        first_seen_ms=NOW_MS,
        attempts=1,
        error="no row",
        key=b"o1",
        replayed_from="",
    )


@pytest.mark.parametrize(
    "garbled",
    [
        {"tablegate-verdict": b"LOST"},
        {"tablegate-verdict": b"\xff"},
        {"tablegate-source": b"orders"},
        {"tablegate-source": b"orders[2]@"},
        {"tablegate-attempt": b"two"},
        {"tablegate-attempt": b"9" * 5_000},
        {"tablegate-first-seen": b"-1"},
        {"tablegate-first-seen": b"9" * 15},
    ],
)
def test_a_header_that_the_job_does_not_write_makes_a_stranger_of_it(
    garbled: dict[str, bytes],
) -> None:
    assert letter({**OURS, **garbled}).verdict == "?"
    missing = {name: value for name, value in OURS.items() if name not in garbled}
    assert letter(missing).verdict == "?"


def test_a_record_without_headers_is_a_stranger() -> None:
    found = read_letter(AT, None, None)
    assert (found.verdict, found.source, found.first_seen_ms) == ("?", None, None)


def test_of_two_headers_of_one_name_the_last_one_counts() -> None:
    headers: Headers = [("tablegate-verdict", b"DELETED"), *OURS.items()]
    assert read_letter(AT, None, headers).verdict == "NOT_FOUND"


def test_what_goes_back_keeps_its_own_headers_and_its_origin() -> None:
    own: Headers = [("own", b"1"), ("own", b"2"), ("none", None)]
    back = replayed_headers(letter(), [*own, *(h for h in OURS.items() if h[0] != "own")])
    assert back == [
        *own,
        ("tablegate-source", b"orders[2]@7"),
        ("tablegate-first-seen", str(NOW_MS).encode()),
        ("tablegate-timestamp", b"99"),
        ("tablegate-replayed", b"orders.dead[0]@12"),
    ]
    # Replayed, dead and replayed again: it names the letter that it comes from now.
    assert replayed_headers(letter(), back) == back
    assert read_letter(AT, None, back).verdict == "REPLAYED"


def test_what_cannot_be_read_does_not_go_back() -> None:
    garbled = {"tablegate-source": b"?", "tablegate-first-seen": b"?", "own": b"1"}
    back = replayed_headers(letter(garbled), list(garbled.items()))
    assert back == [("own", b"1"), ("tablegate-replayed", b"orders.dead[0]@12")]


@pytest.mark.parametrize(
    ("own", "written_ms", "event_s", "in_header"),
    [
        ([("tablegate-timestamp", b"99")], 1234, 99, [("tablegate-timestamp", b"99")]),
        # Of a version before this header: the record has the event's time.
        ([], 1234, 1234, [("tablegate-timestamp", b"1234")]),
        ([("tablegate-timestamp", b"x")], None, 0, []),
    ],
)
def test_an_event_that_is_sent_again_keeps_its_timestamp_and_a_retry_record_is_young(
    own: Headers, written_ms: int | None, event_s: int, in_header: Headers
) -> None:
    headers: Headers = [("own", b"1"), *own]
    assert sent_again(headers, written_ms, as_event=True) == ([("own", b"1")], event_s)
    assert sent_again(headers, written_ms, as_event=False) == ([("own", b"1"), *in_header], 0)


@pytest.mark.parametrize(
    ("text", "moment_ms"),
    [
        ("2h", NOW_MS - 7_200_000),
        ("30 min", NOW_MS - 1_800_000),
        ("0 s", NOW_MS),
        ("2023-11-14T22:13:20", NOW_MS),
        ("2023-11-14T22:13:20Z", NOW_MS),
        ("2023-11-14 23:13:20.5+01:00", NOW_MS + 500),
        ("2023-11-14", NOW_MS - 80_000_000),
    ],
)
def test_a_time_is_a_date_in_utc_or_how_long_ago(text: str, moment_ms: int) -> None:
    assert parse_moment(text, NOW_MS) == moment_ms


def test_a_filter_means_what_all_its_options_say() -> None:
    assert Filter().means(letter())
    within = {"since": "2023-11-14T22:13:20", "until": "2023-11-14T22:13:21"}
    assert parse_filter("orders.dead", NOW_MS, **within).means(letter())
    after = parse_filter("orders.dead", NOW_MS, until="2023-11-14T22:13:20")
    assert not after.means(letter())
    assert not parse_filter("orders.dead", NOW_MS + 1, since="0s").means(letter())
    assert not Filter(since_ms=0).means(read_letter(AT, None, None)), "no time is in no span"
    assert Filter(verdicts={"NOT_FOUND", "?"}).means(letter())
    assert not Filter(verdicts={"?"}).means(letter())
    assert Filter(key=b"o1").means(letter())
    assert not Filter(key=b"o").means(letter())
    assert Filter(at={AT}).means(letter())
    assert not Filter(at={AT._replace(offset=13)}).means(letter())
    assert Filter(sources={"orders"}).means(letter())
    assert not Filter(sources={"order"}).means(letter())


@pytest.mark.parametrize(
    ("option", "told"),
    [
        ({"verdicts": ["LOST"]}, "--verdict 'LOST' is none"),
        ({"since": "soon"}, "--since 'soon' is no time"),
        ({"until": "3 weeks"}, "--until '3 weeks' is no time"),
        ({"since": "1h", "until": "2h"}, "is not before --until"),
        ({"at": ["orders.dead@12"]}, "names no record"),
        ({"at": ["orders[0]@12"]}, "is not in orders.dead"),
    ],
)
def test_an_option_that_means_nothing_is_refused(option: dict[str, str], told: str) -> None:
    with pytest.raises(RetryError, match=told) as refused:
        parse_filter("orders.dead", NOW_MS, **option)
    assert refused.value.code is Exit.REFUSED


def fate(
    headers: dict[str, bytes], *, again: bool = False, replayed: bool = False, **only: str
) -> Fate:
    options = {name: frozenset({value}) for name, value in only.items()}
    judge = Judge(Filter(**options), "products", {"orders", "orders.retry"}, again)  # type: ignore[arg-type]
    return judge.fate(letter({**OURS, **headers}, replayed=replayed))


def test_an_event_is_sent_once_unless_it_is_asked_for_again() -> None:
    assert fate({}) is Fate.SEND
    assert fate({}, replayed=True) is Fate.REPLAYED
    assert fate({}, replayed=True, again=True) is Fate.SEND


def test_a_row_of_the_table_is_never_sent() -> None:
    row = {"tablegate-source": b"products[0]@3"}
    assert fate(row) is Fate.TABLE_ROW
    assert fate(row, again=True, sources="products") is Fate.TABLE_ROW
    stranger = {**row, "tablegate-verdict": b"?"}
    assert fate(stranger, verdicts="?") is Fate.TABLE_ROW


def test_strangers_and_other_jobs_events_are_sent_by_name_only() -> None:
    stranger = {"tablegate-attempt": b"?"}
    assert fate(stranger) is Fate.UNREADABLE
    assert fate(stranger, verdicts="?") is Fate.SEND
    other = {"tablegate-source": b"payments[0]@3"}
    assert fate(other) is Fate.ELSEWHERE
    assert fate(other, sources="payments") is Fate.SEND
    assert fate({"tablegate-source": b"orders.retry[0]@3"}) is Fate.SEND


def test_an_event_goes_to_its_partition_of_the_stream_and_by_its_key_to_the_retry_topic() -> None:
    assert Destination("orders", 3, is_stream=True).partition(letter()) == 2
    assert Destination("orders", 2, is_stream=True).partition(letter()) == -1
    assert Destination("renamed", 3, is_stream=True).partition(letter()) == -1
    assert Destination("orders", 3, is_stream=False).partition(letter()) == -1


def test_a_key_cannot_write_to_the_terminal() -> None:
    assert readable(b"a\x1b[2J\n", 40) == "a\\x1b[2J\\n"
    assert readable(b"\xff", 40) == "\\xff"
    assert readable("12345", 4) == "123…"
    assert readable(None, 4) == ""
