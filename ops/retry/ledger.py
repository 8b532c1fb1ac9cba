"""The ledger: which dead letters a replay has sent, written in the transaction that sent them.

It is a compacted topic beside the dead letters, ``orders.dead.replayed``, made by the first replay.
A batch of letters and the ledger's records of them are one Kafka transaction: both are there or
neither is. Each of its records says all that is known of a block of offsets (`ops.retry.marks`).

What else could tell it, and why it does not:

- ``tablegate-replayed`` in the destination: its retention may have ended before that of the dead
  letters, somebody may replay to the stream after one to the retry topic, and a stream topic is
  long. The header is for people.
- Offsets of a consumer group: a filter leaves gaps, and the brokers forget a group after a week.
- Records in the dead-letter topic itself: an unfinished transaction of the job would hide them
  from the next replay, which is most likely when the job has just died.

The key names the dead-letter topic by its id: in one that was created anew the offsets are others'.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping

from confluent_kafka import KafkaError, KafkaException, Message
from confluent_kafka.admin import NewTopic

from jobs.preflight.admin import TIMEOUT_S, Admin
from ops.retry import topics
from ops.retry.errors import Exit, RetryError
from ops.retry.marks import BLOCK, Marks
from ops.retry.scan import scan
from ops.retry.topics import Topic

# From one broker to all of them, news take far less.
_KNOWN_S = 30.0
_POLL_S = 0.1
# The second one is Kafka's default: librdkafka's batches fit, whatever the brokers' own limit is.
_CONFIG = {"cleanup.policy": "compact", "max.message.bytes": "1048588"}
_KEY = re.compile(r"(\S+) (\S+)\[(\d{1,10})\]@(\d{1,19})")


def ledger_of(dead: str) -> str:
    """The name of the ledger of dead-letter topic ``dead``."""
    return f"{dead}.replayed"


def key_of(dead: Topic, partition: int, block: int) -> bytes:
    """The key of a block's record."""
    return f"{dead.topic_id} {dead.name}[{partition}]@{block * BLOCK}".encode()


def records(dead: Topic, marks: Marks) -> Iterator[tuple[bytes, bytes]]:
    """Keys and values of what changed since the last time."""
    for partition, block, text in marks.changes():
        yield key_of(dead, partition, block), text.encode()


def read(admin: Admin, client: Mapping[str, str], dead: Topic, *, exact: bool = False) -> Marks:
    """What has been replayed of ``dead``; nothing where there is no ledger yet.

    With ``exact`` it must be there, and it is an error when a transaction is under way: to be asked
    by who has created it and fenced all others.

    Raises:
        RetryError: that, or a record that no replay wrote.
        PreflightError: the brokers do not answer.
    """
    marks = Marks()
    name = ledger_of(dead.name)
    topic = _made(admin, name) if exact else topics.find(admin, name)
    if topic is None:
        return marks
    if exact and topic.hidden:
        raise RetryError(
            f"{topic.hidden} offsets of {name} are hidden by an unfinished transaction.",
            "Only replays may write there: find who else does. The brokers end it by themselves.",
            Exit.ERROR,
        )
    for messages, _ in scan(admin, client, name, topic.spans()):
        for message in messages:
            _take(message, dead, marks)
    return marks


def _made(admin: Admin, name: str) -> Topic:
    # A broker that has not heard of it yet must not pass for one that knows of none.
    deadline = time.monotonic() + _KNOWN_S
    while (topic := topics.find(admin, name)) is None:
        if time.monotonic() > deadline:
            raise RetryError(
                f"Topic {name} was created and is not there.",
                "Find who deletes it; replays keep in it what they sent.",
                Exit.ERROR,
            )
        time.sleep(_POLL_S)
    return topic


def _take(message: Message, dead: Topic, marks: Marks) -> None:
    where = f"{message.topic()}[{message.partition()}]@{message.offset()}"
    key = _KEY.fullmatch((message.key() or b"").decode(errors="replace"))
    if key is None:
        raise _foreign(where, "its key names no block")
    if key[1] != dead.topic_id:
        return
    try:
        marks.set_block(int(key[3]), int(key[4]) // BLOCK, (message.value() or b"").decode())
    except ValueError as error:
        raise _foreign(where, str(error)) from None


def create(admin: Admin, dead: str) -> None:
    """Make the ledger of ``dead`` unless it is there.

    Raises:
        RetryError: the brokers do not let us.
        PreflightError: they do not answer.
    """
    name = ledger_of(dead)
    # One partition, so that its records are in the order in which they were written.
    new = NewTopic(name, 1, -1, config=_CONFIG)
    question = admin.client.create_topics([new], request_timeout=TIMEOUT_S)[name]
    try:
        admin.answer(question, f"a new topic {name}")
    except KafkaException as error:
        if error.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS:
            return
        raise RetryError(
            f"Topic {name}, in which replays keep what they sent, could not be created: "
            f"{admin.scrub(error.args[0].str())}.",
            f"Have it created: kafka-topics.sh --create --topic {name} --partitions 1 "
            + " ".join(f"--config {key}={value}" for key, value in _CONFIG.items()),
        ) from None


def _foreign(where: str, reason: str) -> RetryError:
    return RetryError(
        f"{where} was written by no replay: {reason}.",
        "Find who else writes there. With the topic deleted, all dead letters count as never "
        "replayed.",
        Exit.ERROR,
    )
