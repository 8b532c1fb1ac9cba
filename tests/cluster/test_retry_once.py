"""A replay sends each letter once, whatever ends it, and whoever else begins one."""

from __future__ import annotations

import re
import signal
import subprocess
import time
from collections import Counter

from ops.retry.ledger import ledger_of
from tests.support.kafka import Message
from tests.support.letters import Letters

_DEADLINE_S = 60.0
_MANY = 20_000
# Ends the process within its third transaction, when the brokers have its records.
_DIE = """
import os, signal
from ops.retry.replay import Sender
commit, calls = Sender._commit_now, []
def die(sender, marks):
    calls.append(1)
    if len(calls) == 3:
        sender._producer.flush()
        os.kill(os.getpid(), signal.SIGKILL)
    commit(sender, marks)
Sender._commit_now = die
"""


def test_a_replay_that_is_killed_is_finished_by_the_next_one_with_nothing_twice(
    letters: Letters,
) -> None:
    letters.write(*(letters.letter(n, partition=n % 2) for n in range(1_000)))
    killed = letters.start("--yes", "--batch", "150", prelude=_DIE)
    _, told = killed.communicate(timeout=_DEADLINE_S)
    assert killed.returncode == -signal.SIGKILL, told
    assert len(letters.read("retry")) == 300
    out = letters.replay()
    assert "700 dead letters" in out
    assert "skipped 300: replayed before" in out
    assert_each_once(letters, 1_000)
    written = letters.kafka.consume_all(letters.topics["retry"], "read_uncommitted")
    assert len(written) == 1_150, "the batch that was killed is in the log, and was taken back"


def test_whoever_begins_later_ends_the_replay_that_is_under_way(letters: Letters) -> None:
    first = begun(letters)
    letters.replay()
    _, told = first.communicate(timeout=_DEADLINE_S)
    assert first.returncode == 1, told
    assert f"Another replay of {letters.dead} has begun" in told, told
    assert_each_once(letters, _MANY)


def test_an_interrupted_replay_says_what_it_has_sent(letters: Letters) -> None:
    running = begun(letters)
    running.send_signal(signal.SIGINT)
    _, told = running.communicate(timeout=_DEADLINE_S)
    assert running.returncode == 130, told
    sent = len(letters.read("retry"))
    assert f"Interrupted; sent before, in whole batches: {sent:,} dead letters." in told
    assert f"skipped {sent:,}: replayed before" in letters.replay()
    assert_each_once(letters, _MANY)


def test_a_record_that_is_not_taken_takes_its_batch_back_and_is_named(letters: Letters) -> None:
    letters.write(*(letters.letter(n) for n in range(10)))
    letters.write(Message(b"large", b"x" * 3_000, letters.letter(10).headers, partition=0))
    letters.kafka.set_topic(letters.topics["retry"], "max.message.bytes", "2000")
    code, _, told = letters.run("replay", "--yes", "--batch", "4")
    assert code == 1
    assert f"does not take dead letter {letters.dead}[0]@10" in told
    assert len(letters.read("retry")) == 8
    letters.kafka.set_topic(letters.topics["retry"], "max.message.bytes", "9000")
    assert "skipped 8: replayed before" in letters.replay()
    assert len(letters.read("retry")) == 11


def test_a_topic_that_was_created_anew_has_other_letters(letters: Letters) -> None:
    letters.write(letters.letter(0))
    letters.replay()
    letters.kafka.delete_topic(letters.dead)
    letters.kafka.create_exactly(letters.dead, 2)
    letters.write(letters.letter(1))
    assert "1 dead letter " in letters.replay()
    assert_each_once(letters, 2)


def test_a_ledger_that_somebody_else_writes_is_not_believed(letters: Letters) -> None:
    letters.write(letters.letter(0))
    letters.replay()
    name = ledger_of(letters.dead)
    (record,) = letters.kafka.consume_all(name)
    assert record.value == b"0"
    letters.kafka.produce(name, [Message(record.key, b"everything")])
    code, _, told = letters.run("replay", "--yes")
    assert code == 1
    assert re.search(rf"{name}\[0\]@\d+ was written by no replay: 'everything'", told)


def begun(letters: Letters) -> subprocess.Popen[str]:
    """A replay that is under way and far from its end."""
    letters.write(*(letters.letter(n, partition=n % 2) for n in range(_MANY)))
    running = letters.start("--yes", "--batch", "50")
    deadline = time.monotonic() + _DEADLINE_S
    while sum(letters.kafka.end_offsets(letters.topics["retry"]).values()) < 500:
        assert running.poll() is None, running.communicate()
        assert time.monotonic() < deadline, "the replay sends nothing"
        time.sleep(0.01)
    return running


def assert_each_once(letters: Letters, count: int) -> None:
    found = Counter(record.key for record in letters.read("retry"))
    assert found == {f"o{n}".encode(): 1 for n in range(count)}
