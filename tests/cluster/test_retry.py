"""`tablegate retry` on a real broker: what is listed, and what goes back how."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from typer.testing import CliRunner

from jobs.settings import load
from ops.cli import app
from ops.deploy.waiting import MARGIN_MS, resend
from tests.cluster.conftest import NewJob
from tests.support.join_job import names, order, product
from tests.support.kafka import Kafka, Message
from tests.support.letters import OWN, SEEN_MS, Letters


def test_dead_letters_are_listed_by_what_they_say_of_themselves(letters: Letters) -> None:
    table = letters.topics["products"]
    letters.write(
        letters.letter(0),
        letters.letter(1, "NO_KEY"),
        letters.letter(2, "BAD_RECORD", source=f"{table}[0]@7", partition=1),
        Message(b"stranger", b"?", [("tablegate-verdict", b"LOST")], partition=1),
    )
    found = letters.listed()
    assert found["found"] == 4
    first = next(letter for letter in found["letters"] if letter["key"] == "o0")
    assert first == {
        "at": f"{letters.dead}[0]@0",
        "verdict": "NOT_FOUND",
        "source": f"{letters.orders}[1]@0",
        "first_seen_ms": SEEN_MS,
        "attempts": 2,
        "error": "no row after 1 retries",
        "key": "o0",
        "replayed_from": None,
        "replayed": False,
    }
    counts = {(c["verdict"], c["source_topic"]): c["letters"] for c in found["counts"]}
    assert counts == {
        ("NOT_FOUND", letters.orders): 1,
        ("NO_KEY", letters.orders): 1,
        ("BAD_RECORD", table): 1,
        ("?", "?"): 1,
    }
    assert keys(letters, "--verdict", "NO_KEY", "--verdict", "?") == {"o1", "stranger"}
    assert keys(letters, "--at", f"{letters.dead}[1]@0") == {"o2"}
    assert keys(letters, "--key", "o1") == {"o1"}
    assert keys(letters, "--source", table) == {"o2"}
    since = ("--since", "2023-11-14T22:14:20", "--until", "2023-11-14T22:15:20Z")
    assert keys(letters, *since) == {"o1"}
    assert keys(letters, "--limit", "1") == {"o2"}, "the one that was seen last"
    code, out, _ = letters.run("list", "--limit", "0")
    assert code == 0
    assert f"{letters.dead}[1]@0" in out
    assert "2023-11-14 22:13:20 UTC" in out


def keys(letters: Letters, *arguments: str) -> set[str]:
    return {letter["key"] for letter in letters.listed(*arguments)["letters"]}


def test_a_letter_goes_back_as_it_came_and_only_once(letters: Letters) -> None:
    letters.write(letters.letter(0), letters.letter(1, partition=1))
    assert f"2 dead letters of {letters.dead} sent" in letters.replay()
    sent = {record.key: record for record in letters.read("retry")}
    assert len(sent) == 2
    record, original = sent[b"o1"], letters.letter(1)
    # Its own time goes with it; as a retry record it is new, and retention does not take it.
    assert record.value == original.value
    assert record.timestamp > SEEN_MS
    assert record.headers == (
        *OWN,
        ("tablegate-source", f"{letters.orders}[1]@1".encode()),
        ("tablegate-first-seen", str(SEEN_MS + 60_000).encode()),
        ("tablegate-replayed", f"{letters.dead}[1]@0".encode()),
        ("tablegate-timestamp", str(original.timestamp).encode()),
    )
    assert "skipped 2: replayed before" in letters.replay("--to", "stream")
    assert len(letters.read("retry")) + len(letters.read("orders")) == 2
    # Dead once more, it is another letter.
    letters.write(letters.letter(0))
    assert "1 dead letter " in letters.replay()
    assert [letter["replayed"] for letter in letters.listed()["letters"]] == [True] * 3
    letters.replay("--again", "--key", "o1")
    assert Counter(r.key for r in letters.read("retry")) == {b"o0": 2, b"o1": 2}
    listed = letters.listed("--from", "retry")
    assert {letter["verdict"] for letter in listed["letters"]} == {"REPLAYED"}


def test_what_a_filter_left_out_is_still_to_be_sent(letters: Letters) -> None:
    letters.write(*(letters.letter(n, "DELETED" if n % 3 else "NOT_FOUND") for n in range(30)))
    assert "20 dead letters" in letters.replay("--verdict", "DELETED")
    out = letters.replay()
    assert "10 dead letters" in out
    assert "skipped 20: replayed before" in out
    counts = Counter(record.key for record in letters.read("retry"))
    assert counts == {f"o{n}".encode(): 1 for n in range(30)}


def test_to_the_stream_an_event_goes_where_it_came_from(kafka: Kafka, tmp_path: Path) -> None:
    letters = Letters(kafka, tmp_path, partitions=4, retry_after="")
    source = f"{letters.orders}[3]@5"
    gone = f"{letters.orders}[9]@5"
    messages = [letters.letter(n, source=source) for n in range(20)]
    letters.write(*messages, letters.letter(20, source=gone))
    assert letters.replay().endswith("\n")
    found = {record.key: record.partition for record in letters.read("orders")}
    assert len(found) == 21
    assert {found[f"o{n}".encode()] for n in range(20)} == {3}
    assert letters.read("retry") == []


def test_rows_and_strangers_stay_where_they_are(letters: Letters) -> None:
    table = letters.topics["products"]
    letters.write(
        letters.letter(0, "BAD_RECORD", source=f"{table}[0]@7"),
        letters.letter(1, source="other[0]@3"),
        Message(b"stranger", b"!", [("own", b"1"), ("tablegate-first-seen", b"now")], partition=0),
        letters.letter(2),
    )
    out = letters.replay()
    assert [record.key for record in letters.read("retry")] == [b"o2"]
    assert f"row of the table, e.g. {letters.dead}[0]@0 ({table}[0]@7)" in out
    assert "write the row again" in out
    assert "skipped 1: event of another topic" in out
    assert "skipped 1: no verdict of ours" in out

    letters.replay("--verdict", "?")
    letters.replay("--source", "other")
    letters.replay("--source", table, "--verdict", "BAD_RECORD", "--again")
    records = {record.key: record for record in letters.read("retry")}
    assert set(records) == {b"o1", b"o2", b"stranger"}
    (stranger,) = (r for r in letters.read("dead") if r.key == b"stranger")
    assert records[b"stranger"].headers == (
        ("own", b"1"),
        ("tablegate-replayed", f"{letters.dead}[0]@2".encode()),
        ("tablegate-timestamp", str(stranger.timestamp).encode()),
    )


def test_a_dry_run_and_a_refusal_write_nothing(letters: Letters) -> None:
    letters.write(*(letters.letter(n) for n in range(30)))
    code, out, _ = letters.run("replay", "--dry-run", "--limit", "3")
    assert code == 0
    assert f"30 dead letters of {letters.dead} to send to {letters.topics['retry']}" in out
    assert out.count("no row after 1 retries") == 3
    code, _, told = letters.run("replay")
    assert code == 2
    assert "no terminal is there to confirm it" in told
    refused = [
        ("replay", "--yes", "--verdict", "LOST"),
        ("replay", "--yes", "--at", f"{letters.dead}[0]@30"),
        ("replay", "--yes", "--at", f"{letters.dead}[7]@0"),
        ("replay", "--yes", "--at", f"{letters.orders}[0]@0"),
        ("list", "--since", "yesterday"),
        ("list", "--since", "1h", "--until", "2h"),
        ("list", "--set", "output.dead=nowhere"),
        ("replay", "--yes", "--set", "output.retry=nowhere"),
    ]
    for line in refused:
        code, _, told = letters.run(*line)
        assert code == 2, line
        assert told.startswith("tablegate: "), line
    assert letters.read("retry") == letters.read("orders") == []
    assert not letters.ledger_exists()


def test_on_a_terminal_it_shows_what_it_would_send_and_asks(letters: Letters) -> None:
    letters.write(letters.letter(0), letters.letter(1, "NO_KEY"))
    code, out, seen = letters.on_terminal("n")
    assert code == 2
    assert "2 dead letters" in out
    assert f"Send them to {letters.topics['retry']}?" in seen
    assert "Nothing was sent" in seen
    assert letters.read("retry") == []
    code, out, seen = letters.on_terminal("y", "--verdict", "NO_KEY")
    assert (code, [record.key for record in letters.read("retry")]) == (0, [b"o1"])
    assert f"1 dead letter of {letters.dead} sent to" in out
    assert f"reading {letters.dead}" in seen, "the bar"


def test_a_scan_ends_at_holes_markers_and_an_unfinished_transaction(letters: Letters) -> None:
    kafka = letters.kafka
    letters.write(*(letters.letter(n) for n in range(10)))
    kafka.delete_records(letters.dead, {0: 4})
    letters.write(letters.letter(10), transactional=True)
    letters.write(
        *(letters.letter(n, partition=1) for n in range(99)), transactional=True, abort=True
    )
    assert keys(letters) == {f"o{n}" for n in (4, 5, 6, 7, 8, 9, 10)}
    with kafka.transaction() as unfinished:
        unfinished.produce(letters.dead, b"{}", b"hidden", partition=1)
        unfinished.flush()
        letters.write(letters.letter(11, partition=1))
        found = letters.listed()
        assert found["found"] == 7
        assert found["notes"][0].startswith(f"2 offsets of {letters.dead} lie behind")
        # A replay neither waits for it, nor takes what it hides for sent.
        assert "7 dead letters" in letters.replay()
        assert "skipped 7: replayed before" in letters.replay()
        unfinished.abort_transaction()
    assert "1 dead letter " in letters.replay()
    counts = Counter(record.key for record in letters.read("retry"))
    assert counts == {f"o{n}".encode(): 1 for n in range(4, 12)}


def test_dead_letters_become_hits_when_their_rows_are_there(new_job: NewJob) -> None:
    job = new_job(settings={"miss": {"grace_ms": 0, "retry_after": "1 s"}})
    job.kafka.produce(job.products, [product("p0", "mug"), (b"p9", b"{not json")])
    job.kafka.produce(job.orders, [order(n, f"p{n}") for n in range(4)])
    job.start()
    job.wait_until(lambda: len(job.read("dead")) == 4, "three dead events and a dead row")
    job.kafka.produce(job.products, [product(f"p{n}", f"row-{n}") for n in (1, 2)])

    def replayed() -> str:
        line = ["retry", "replay", "--config", str(job.config), "--yes"]
        done = CliRunner().invoke(app, line)
        assert done.exit_code == 0, done.stderr
        return done.stdout

    assert "3 dead letters" in replayed()
    job.wait_until(lambda: len(job.read("dead")) == 5, "the one that has no row still")
    job.wait_until(lambda: len(job.read("enriched")) == 3, "the two that have one now")
    assert names(job.read("enriched")) == {b"o0": "mug", b"o1": "row-1", b"o2": "row-2"}
    late = next(record for record in job.read("enriched") if record.key == b"o1")
    assert [name for name, _ in late.headers] == ["tablegate-late"]
    dead = [record for record in job.read("dead") if record.key == b"o3"]
    assert sorted(str(record.header("tablegate-attempt")) for record in dead) == ["2", "2"]
    assert {record.header("tablegate-source") for record in dead} == {
        record.source for record in job.kafka.consume_all(job.orders) if record.key == b"o3"
    }
    # A letter of its own now, and the only one that is left to send.
    assert "1 dead letter " in replayed()


# tests/cluster/test_sql_views.py has the audits on records that are made up, in CI.
@pytest.mark.full
def test_the_audits_find_no_fault_in_what_was_replayed(
    new_job: NewJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = new_job(settings={"miss": {"grace_ms": 0, "retry_after": "1 s"}})
    monkeypatch.setattr("ops.audit.cli.choose", lambda *_: job.flink)

    def run(*arguments: str) -> str:
        line = [*arguments, "--config", str(job.config)]
        done = CliRunner().invoke(app, line)
        assert done.exit_code == 0, done.output
        return done.stdout

    job.kafka.produce(job.products, [product("p0", "mug"), (b"p9", b"{not json")])
    job.kafka.produce(job.orders, [*(order(n, f"p{n}") for n in range(3)), (b"o3", b"{}")])
    job.start()
    job.wait_until(lambda: len(job.read("dead")) == 4, "two misses, no key, and a bad row")
    assert "3 dead letters" in run("retry", "replay", "--yes")
    job.wait_until(lambda: len(job.read("dead")) == 7, "the same once more")
    # Each letter of before for the second time, and each new one for the first.
    assert "6 dead letters" in run("retry", "replay", "--yes", "--again")
    job.wait_until(lambda: len(job.read("dead")) == 13, "each of them once more")
    job.kafka.produce(job.products, [product("p1", "late")])
    assert "4 dead letters" in run("retry", "replay", "--yes", "--again", "--key", "o1")
    job.wait_until(lambda: len(job.read("enriched")) == 5, "a hit for each letter of o1")
    assert run("audit").split() == [
        *("wrong_nulls", "ok", "stale_joins", "ok", "duplicates", "ok", "labels", "ok")
    ]


def test_what_waited_in_a_version_that_is_left_behind_is_in_the_retry_topic_once_more(
    letters: Letters,
) -> None:
    kafka, retry = letters.kafka, letters.topics["retry"]

    def waiting(key: str, due_ms: int) -> Message:
        headers = [
            *OWN,
            ("tablegate-source", b"orders[0]@" + key.encode()),
            ("tablegate-attempt", b"1"),
            ("tablegate-due", str(due_ms).encode()),
        ]
        return Message(key.encode(), b"v", headers, partition=0)

    stopped_ms = SEEN_MS
    before, after = stopped_ms - 2 * MARGIN_MS, stopped_ms + 1_000
    kafka.produce(retry, [waiting("let-through", before), waiting("waits", after)])
    kafka.produce(retry, [waiting("taken-back", after)], transactional=True, abort=True)
    read = {0: kafka.end_offsets(retry)[0]}
    kafka.produce(retry, [waiting("not-read", after)])
    settings = load(letters.config)
    assert resend(settings, read, stopped_ms) == 1
    records = kafka.consume_all(retry)
    assert sorted(r.key or b"" for r in records) == [
        b"let-through",
        b"not-read",
        b"waits",
        b"waits",
    ]
    first, again = (r for r in records if r.key == b"waits")
    own_time = ("tablegate-timestamp", str(first.timestamp).encode())
    assert (again.value, again.headers) == (first.value, (*first.headers, own_time))
    assert again.timestamp >= first.timestamp
    assert resend(settings, {}, stopped_ms) == 0
    # A second version that is left behind has read the copy: it is not doubled again.
    assert resend(settings, kafka.end_offsets(retry), stopped_ms) == 2
