"""The demo's independent check must be able to fail: every fault, injected and counted."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from ops.demo.check import Fault, Judgement, Outputs, Record, Rules, Start, expect, judge

RULES = Rules(
    stream_topic="orders",
    key_field="customer_id",
    fields={"tier": "customer_tier", "revision": "customer_revision"},
    id_header="trace-id",
)

# ann is updated and bob deleted before the first start; while the job is down dan is new, ann
# changes again, cid is deleted and bob comes back.
TABLE = [
    ("ann", ("bronze", 1)),  # 0
    ("bob", ("gold", 1)),  # 1
    ("cid", ("silver", 1)),  # 2
    ("ann", ("silver", 2)),  # 3
    ("bob", None),  # 4
    ("dan", ("gold", 1)),  # 5
    ("ann", ("gold", 3)),  # 6
    ("cid", None),  # 7
    ("bob", ("bronze", 2)),  # 8
]
STARTS = [Start({0: 5}, {0: 5}), Start({0: 9}, {})]

# The customers that the orders ask for; "!" is unreadable and None names nobody.
STREAM = ["ann", "bob", "eve", "!", None, "ann", "dan", "cid", "bob"]


def row(offset: int) -> Record:
    key, fields = TABLE[offset]
    value = None if fields is None else json.dumps({"tier": fields[0], "revision": fields[1]})
    return Record(0, offset, key.encode(), value.encode() if value else None, (), 50)


def order(offset: int) -> Record:
    customer = STREAM[offset]
    value = json.dumps({"customer_id": customer, "amount": 1.5, "note": "für dich"}).encode()
    if customer == "!":
        value = b"\xff" + value
    headers = (("trace-id", f"t{offset}".encode()), ("channel", None))
    return Record(0, offset, f"o{offset}".encode(), value, headers, 10 + offset)


def hit(offset: int, revision: int, tier: str) -> Record:
    was = order(offset)
    body = json.loads(was.value or b"")
    added = {"customer_tier": tier, "customer_revision": revision}
    return was._replace(value=json.dumps(body | added).encode(), offset=100 + offset)


def labelled(offset: int, verdict: str) -> Record:
    was = order(offset)
    labels = (
        ("tablegate-verdict", verdict.encode()),
        ("tablegate-source", f"orders[0]@{offset}".encode()),
        ("tablegate-attempt", b"1"),
        ("tablegate-first-seen", b"1700000000000"),
        ("tablegate-timestamp", str(was.timestamp_ms).encode()),
    )
    return was._replace(
        headers=labels + was.headers, offset=200 + offset, timestamp_ms=1700000000001
    )


def right() -> Outputs:
    """What a job that is right may write."""
    return Outputs(
        enriched=[hit(0, 2, "silver"), hit(5, 3, "gold"), hit(6, 1, "gold"), hit(8, 2, "bronze")],
        retry=[labelled(1, "DELETED"), labelled(2, "NOT_FOUND"), labelled(7, "DELETED")],
        dead=[labelled(3, "BAD_RECORD"), labelled(4, "NO_KEY")],
    )


def judged(outputs: Outputs, rules: Rules = RULES) -> Judgement:
    table = [row(offset) for offset in range(len(TABLE))]
    stream = [order(offset) for offset in range(len(STREAM))]
    return judge(expect(reversed(table), reversed(stream), STARTS, rules), outputs, rules)


def test_a_right_job_has_no_fault_and_its_counts_add_up() -> None:
    result = judged(right())
    assert result.right, result.examples
    assert (result.events, result.hits, result.misses, result.dead) == (9, 4, 3, 2)
    assert result.duplicates == 0


def test_an_order_that_was_held_over_the_restart_may_see_the_newer_rows() -> None:
    newer = right()._replace(
        enriched=[hit(0, 3, "gold"), hit(1, 2, "bronze"), *right().enriched[1:]],
        retry=right().retry[1:],
    )
    assert judged(newer).right


def test_copies_of_an_order_are_counted_and_allowed() -> None:
    twice = right()._replace(enriched=[*right().enriched, hit(0, 3, "gold"), hit(0, 2, "silver")])
    result = judged(twice)
    assert result.right
    assert (result.duplicates, result.hits) == (2, 4)


def without(outputs: Outputs, offset: int) -> Outputs:
    """The outputs less every copy of one order."""
    key = order(offset).key
    return Outputs(*([r for r in records if r.key != key] for records in outputs))


def enriched(*records: Record) -> Callable[[Outputs], Outputs]:
    return lambda outputs: outputs._replace(enriched=[*outputs.enriched, *records])


def retry(*records: Record) -> Callable[[Outputs], Outputs]:
    return lambda outputs: outputs._replace(retry=[*outputs.retry, *records])


def dead(*records: Record) -> Callable[[Outputs], Outputs]:
    return lambda outputs: outputs._replace(dead=[*outputs.dead, *records])


def nothing(outputs: Outputs) -> Outputs:
    return outputs


def bare_null(offset: int) -> Record:
    nulls = {"customer_tier": None, "customer_revision": None}
    body = json.loads(order(offset).value or b"") | nulls
    return order(offset)._replace(value=json.dumps(body).encode(), offset=100 + offset)


def relabelled(record: Record, name: str, value: bytes | None) -> Record:
    return record._replace(headers=tuple((n, value if n == name else v) for n, v in record.headers))


@pytest.mark.parametrize(
    ("offset", "instead", "fault"),
    [
        pytest.param(0, retry(labelled(0, "NOT_FOUND")), Fault.WRONG_NULL, id="missed-updated-key"),
        pytest.param(6, retry(labelled(6, "NOT_FOUND")), Fault.WRONG_NULL, id="missed-newest-key"),
        pytest.param(5, enriched(bare_null(5)), Fault.WRONG_NULL, id="bare-null"),
        pytest.param(5, enriched(order(5)), Fault.WRONG_NULL, id="fields-absent"),
        pytest.param(
            8, retry(labelled(8, "DELETED")), Fault.WRONG_NULL, id="missed-row-that-came-back"
        ),
        pytest.param(0, enriched(hit(0, 1, "bronze")), Fault.STALE, id="row-before-the-first-end"),
        pytest.param(5, enriched(hit(5, 2, "silver")), Fault.STALE, id="row-before-the-second-end"),
        pytest.param(
            8, enriched(hit(8, 1, "gold")), Fault.STALE, id="row-from-before-the-tombstone"
        ),
        pytest.param(7, enriched(hit(7, 1, "silver")), Fault.FALSE_HIT, id="row-was-deleted"),
        pytest.param(2, enriched(hit(2, 1, "gold")), Fault.FALSE_HIT, id="row-never-was"),
        pytest.param(0, nothing, Fault.LOST, id="hit-lost"),
        pytest.param(2, nothing, Fault.LOST, id="miss-lost"),
        pytest.param(3, nothing, Fault.LOST, id="unreadable-lost"),
        pytest.param(0, dead(labelled(0, "NO_KEY")), Fault.WRONG_DEAD, id="joinable-in-dead"),
        pytest.param(
            3, retry(labelled(3, "NOT_FOUND")), Fault.WRONG_DEAD, id="unreadable-in-retry"
        ),
        pytest.param(4, enriched(bare_null(4)), Fault.WRONG_DEAD, id="no-key-in-enriched"),
        pytest.param(2, retry(labelled(2, "DELETED")), Fault.MISLABELLED, id="wrong-miss-verdict"),
        pytest.param(
            4, dead(labelled(4, "BAD_RECORD")), Fault.MISLABELLED, id="wrong-dead-verdict"
        ),
        pytest.param(2, retry(order(2)), Fault.MISLABELLED, id="no-labels"),
        pytest.param(
            2,
            retry(relabelled(labelled(2, "NOT_FOUND"), "tablegate-source", b"orders[0]@9")),
            Fault.MISLABELLED,
            id="wrong-source",
        ),
        pytest.param(
            2,
            retry(relabelled(labelled(2, "NOT_FOUND"), "tablegate-attempt", b"2")),
            Fault.MISLABELLED,
            id="wrong-attempt",
        ),
        pytest.param(
            2,
            retry(relabelled(labelled(2, "NOT_FOUND"), "tablegate-first-seen", b"today")),
            Fault.MISLABELLED,
            id="unreadable-first-seen",
        ),
        pytest.param(
            2,
            retry(relabelled(labelled(2, "NOT_FOUND"), "tablegate-timestamp", b"11")),
            Fault.ALTERED,
            id="time-of-a-miss-altered",
        ),
        pytest.param(0, enriched(hit(0, 2, "gold")), Fault.ALTERED, id="tier-that-no-row-held"),
        pytest.param(
            0, enriched(hit(0, 2, "silver")._replace(key=b"other")), Fault.ALTERED, id="key-altered"
        ),
        pytest.param(
            0,
            enriched(hit(0, 2, "silver")._replace(timestamp_ms=11)),
            Fault.ALTERED,
            id="time-altered",
        ),
        pytest.param(
            0,
            enriched(relabelled(hit(0, 2, "silver"), "channel", b"")),
            Fault.ALTERED,
            id="header-altered",
        ),
        pytest.param(
            0,
            enriched(hit(0, 2, "silver")._replace(headers=(("trace-id", b"t0"),))),
            Fault.ALTERED,
            id="header-dropped",
        ),
        pytest.param(
            0,
            enriched(
                hit(0, 2, "silver")._replace(
                    value=(hit(0, 2, "silver").value or b"").replace(b"1.5", b"1")
                )
            ),
            Fault.ALTERED,
            id="value-altered",
        ),
        pytest.param(
            2,
            retry(labelled(2, "NOT_FOUND")._replace(value=b"{}")),
            Fault.ALTERED,
            id="bytes-of-a-miss-altered",
        ),
        pytest.param(
            3,
            dead(labelled(3, "BAD_RECORD")._replace(value=None)),
            Fault.ALTERED,
            id="dead-bytes-gone",
        ),
    ],
)
def test_an_injected_fault_is_counted_once_and_shown(
    offset: int, instead: Callable[[Outputs], Outputs], fault: Fault
) -> None:
    result = judged(instead(without(right(), offset)))
    assert dict(result.faults) == {fault: 1}
    assert f"orders[0]@{offset}" in result.examples[fault][0]


def test_a_wrong_copy_beside_a_right_one_is_still_a_fault() -> None:
    result = judged(retry(labelled(0, "NOT_FOUND"))(right()))
    assert dict(result.faults) == {Fault.WRONG_NULL: 1}
    assert (result.hits, result.duplicates) == (4, 1)


def test_an_output_of_no_order_is_a_fault() -> None:
    stranger = hit(0, 2, "silver")._replace(headers=(("trace-id", b"?"),))
    assert dict(judged(enriched(stranger)(right())).faults) == {Fault.ALIEN: 1}


def test_a_job_without_labels_is_not_asked_for_them() -> None:
    bare = right()._replace(retry=[order(1), order(2), order(7)], dead=[order(3), order(4)])
    assert judged(bare, Rules(**{**vars(RULES), "labelled": False})).right


def test_every_order_lost_is_counted_as_that_many() -> None:
    result = judged(Outputs([], [], []))
    assert dict(result.faults) == {Fault.LOST: 9}
    assert (result.hits, result.misses, result.dead) == (0, 0, 0)
    assert len(result.examples[Fault.LOST]) == 5


def test_rows_that_an_order_missed_are_placed_in_the_log_of_the_first_start() -> None:
    # Both ask for ann, whose row stood at 3 of the 5 records that the first start found.
    wrong = Outputs(enriched=[hit(0, 1, "bronze")], retry=[labelled(5, "DELETED")], dead=[])
    assert [(d.events, d.lost, d.stale) for d in judged(wrong).deciles] == [
        *[(0, 0, 0)] * 6,
        (1, 0, 1),
        *[(0, 0, 0)] * 3,
    ]
    missed = right()._replace(enriched=[], retry=[labelled(0, "NOT_FOUND")])
    assert [(d.events, d.lost, d.stale) for d in judged(missed).deciles][6] == (1, 1, 0)


def test_orders_that_share_an_id_are_refused() -> None:
    with pytest.raises(ValueError, match="2 orders with only 1 ids"):
        expect([], [order(0), order(0)], STARTS, RULES)


def test_nothing_is_judged_when_nothing_ran() -> None:
    with pytest.raises(ValueError, match="starts is empty"):
        expect([], [], [], RULES)
