"""Sends dead letters back, in transactions that say in the ledger what they sent.

Exactly once, whatever ends a replay on the way: its producer has one transactional id for each
dead-letter topic. To begin, a replay takes that id; the brokers then end the transaction of the one
before and refuse whatever that one, alive or not, sends later. Only then is the ledger read, which
is from there on the whole truth.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from types import FrameType, TracebackType
from typing import Any, NoReturn, Self

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from jobs.preflight.admin import Admin
from ops.retry import ledger
from ops.retry.errors import Exit, RetryError
from ops.retry.filters import Fate, Judge
from ops.retry.letters import Letter, Place, replayed_headers, sent_again
from ops.retry.marks import Marks
from ops.retry.summary import Tally
from ops.retry.topics import Topic

BATCH = 5_000
"""Letters in a transaction, by default: what one costs hardly counts beside them."""
MOST = 50_000
"""Librdkafka's own queue takes 100,000 messages, and a batch has its records of the ledger too."""

# What a batch holds in memory at most, and for how long its transaction keeps readers waiting.
_BATCH_BYTES = 16 << 20
_BATCH_S = 2.0
# Those who read committed records wait for a replay that was killed for as long: no longer than
# a batch may take when the brokers are slow.
_TRANSACTION_TIMEOUT_MS = 60_000
_ANSWER_S = 30.0
_COMMIT_S = 120.0
_REPORT_S = 1.0
# Librdkafka's default.
_WIRE_BATCH_BYTES = 1_000_000
# Librdkafka's largest: the topic's own limit shall decide.
_MESSAGE_BYTES = 1_000_000_000
_FENCED = frozenset(
    {
        KafkaError._FENCED,  # noqa: SLF001  (its only name)
        KafkaError.PRODUCER_FENCED,
        KafkaError.INVALID_PRODUCER_EPOCH,
    }
)
# Said of records that were not at fault.
_TAKEN_BACK = frozenset(
    {
        KafkaError._PURGE_QUEUE,  # noqa: SLF001  (their only names)
        KafkaError._PURGE_INFLIGHT,  # noqa: SLF001
        KafkaError._FATAL,  # noqa: SLF001
        KafkaError._MSG_TIMED_OUT,  # noqa: SLF001
    }
)


@dataclass(frozen=True, slots=True)
class Destination:
    """Where letters go. To the stream, an event goes to the partition that it came from."""

    topic: str
    partitions: int
    is_stream: bool
    max_bytes: int | None = None
    """Of a batch of records that the topic takes; None: not known."""

    def partition(self, letter: Letter) -> int:
        """The partition for ``letter``; -1: its key decides, as in Java's producer."""
        source = letter.source
        if not self.is_stream or source is None or source.topic != self.topic:
            return -1
        # Whoever writes the stream may have rules of their own for which key goes where.
        return source.partition if source.partition < self.partitions else -1


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """A Ctrl-C waits until this is over, so that what is told is what was sent; a second does not.

    Python has signals in its main thread only.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    caught: list[int] = []

    def note(number: int, _frame: FrameType | None) -> None:
        caught.append(number)
        if len(caught) > 1:
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, note)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if caught:
        raise KeyboardInterrupt


class Sender:
    """The one replay of a dead-letter topic. To be entered: leaving it early ends the batch.

    Args:
        admin: scrubs what goes into errors.
        client: librdkafka's configuration.
        dead: the dead-letter topic.
        destination: where its letters go.
        batch: letters in a transaction.
    """

    def __init__(
        self,
        admin: Admin,
        client: Mapping[str, str],
        dead: Topic,
        destination: Destination,
        batch: int = BATCH,
    ) -> None:
        self._admin, self._client = admin, client
        self._dead, self._destination = dead, destination
        self._batch = batch
        self._pending: list[Letter] = []
        self._bytes, self._began = 0, 0.0
        self._refused: tuple[Place, str] | None = None
        self._fenced = False
        self._producer = Producer(
            {
                "message.max.bytes": _MESSAGE_BYTES,
                "linger.ms": 5,
                **client,
                # The topic's limit is one of whole batches, and librdkafka does not split any.
                "batch.size": min(_WIRE_BATCH_BYTES, destination.max_bytes or _WIRE_BATCH_BYTES),
                "acks": "all",
                "enable.idempotence": True,
                # Where Java's producer, and so the job, puts the key.
                "partitioner": "murmur2_random",
                "transactional.id": f"tablegate-replay-{dead.name}",
                "transaction.timeout.ms": _TRANSACTION_TIMEOUT_MS,
                "delivery.report.only.error": True,
            },
            logger=admin,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        if self._pending:
            self._pending.clear()
            # A commit that is under way, or another replay's taking over, has ended it already.
            with suppress(KafkaException):
                self._producer.abort_transaction(_ANSWER_S)

    def take_over(self) -> Marks:
        """End every other replay of this topic, and return what all of them have sent.

        Raises:
            RetryError: the brokers do not let us write in transactions, or do not answer.
        """
        try:
            self._producer.init_transactions(_ANSWER_S)
        except KafkaException as error:
            self._fail(error)
        ledger.create(self._admin, self._dead.name)
        return ledger.read(self._admin, self._client, self._dead, exact=True)

    def run(
        self,
        batches: Iterable[list[tuple[Letter, Message]]],
        judge: Judge,
        marks: Marks,
        tally: Tally,
    ) -> None:
        """Send what ``judge`` says of the letters in ``batches``.

        Args:
            batches: what a scan reads; also when that is nothing, so that no transaction waits.
            judge: which of them to send.
            marks: what has been sent, by the ledger; kept up to date here and there.
            tally: counts what was sent when it is committed, and what was skipped.

        Raises:
            RetryError: a record is refused, another replay took over, or the brokers fail. The
                batch at hand is taken back.
        """
        for batch in batches:
            for letter, message in batch:
                if not judge.filter.means(letter):
                    continue
                fate = judge.fate(letter)
                if fate is not Fate.SEND:
                    tally.skip(letter, fate)
                    continue
                self._send(letter, message)
                marks.add(letter.place.partition, letter.place.offset)
                if len(self._pending) >= self._batch or self._bytes >= _BATCH_BYTES:
                    self._commit(marks, tally)
            # Letters that are meant may be rare, and the brokers end a transaction that is old.
            if self._pending and time.monotonic() - self._began > _BATCH_S:
                self._commit(marks, tally)
        if self._pending:
            self._commit(marks, tally)

    def _send(self, letter: Letter, message: Message) -> None:
        headers: Any = message.headers()
        kind, written_ms = message.timestamp()
        headers, timestamp_ms = sent_again(
            replayed_headers(letter, headers),
            written_ms if kind else None,
            as_event=self._destination.is_stream,
        )
        try:
            if not self._pending:
                self._producer.begin_transaction()
                self._bytes, self._began = 0, time.monotonic()
            # Before the record is handed over, so that leaving ends its transaction in any case.
            self._pending.append(letter)
            self._producer.produce(
                self._destination.topic,
                message.value(),
                message.key(),
                partition=self._destination.partition(letter),
                # Zero is Python's "now".
                timestamp=timestamp_ms,
                headers=headers,
                on_delivery=partial(self._on_refusal, letter.place),
            )
            # It raises what has ended the transaction meanwhile, whichever call that was.
            self._producer.poll(0)
        except KafkaException as error:
            if error.args[0].code() == KafkaError.MSG_SIZE_TOO_LARGE:
                self._refused = self._refused or (letter.place, self._text(error))
            self._fail(error)
        self._bytes += len(message)

    def _on_refusal(self, place: Place, error: KafkaError | None, _message: Message) -> None:
        if error is None:
            return
        if error.code() in _FENCED:
            self._fenced = True
        elif error.code() not in _TAKEN_BACK:
            self._refused = self._refused or (place, self._admin.scrub(error.str()))

    def _commit(self, marks: Marks, tally: Tally) -> None:
        with _uninterrupted():
            self._commit_now(marks)
            for letter in self._pending:
                tally.add(letter)
            self._pending.clear()

    def _commit_now(self, marks: Marks) -> None:
        deadline = time.monotonic() + _COMMIT_S
        try:
            for key, value in ledger.records(self._dead, marks):
                self._producer.produce(ledger.ledger_of(self._dead.name), value, key)
        except KafkaException as error:
            self._fail(error)
        while True:
            try:
                self._producer.commit_transaction(_ANSWER_S)
                break
            except KafkaException as error:
                if not error.args[0].retriable() or time.monotonic() > deadline:
                    self._fail(error)

    def _await_reports(self) -> None:
        # A transaction fails with its first record, whose report may still be on its way; what is
        # tried meanwhile fails without a word of the reason.
        deadline = time.monotonic() + _REPORT_S
        while not (self._fenced or self._refused) and time.monotonic() < deadline:
            try:
                self._producer.poll(0.1)
            except KafkaException as error:
                self._fenced = error.args[0].code() in _FENCED

    def _text(self, error: KafkaException) -> str:
        return self._admin.scrub(error.args[0].str())

    def _fail(self, error: KafkaException) -> NoReturn:
        where, reason = self._destination.topic, self._text(error)
        self._fenced = self._fenced or error.args[0].code() in _FENCED
        self._await_reports()
        if self._fenced:
            raise RetryError(
                f"Another replay of {self._dead.name} has begun, and this one is over.",
                "Let the other one finish; neither sends a letter that the other has sent.",
                Exit.ERROR,
            ) from None
        if self._refused is not None:
            place, reason = self._refused
            raise RetryError(
                f"{where} does not take dead letter {place}: {reason}.",
                f"Check the size that {where} takes (max.message.bytes) and who may write to it; "
                "the batch was taken back. Run this again: what was sent is not sent twice.",
                Exit.ERROR,
            ) from None
        raise RetryError(
            f"The brokers do not take a batch of dead letters for {where}: {reason}.",
            "Check that they are up, and that this client may write to it, to the ledger "
            f"({ledger.ledger_of(self._dead.name)}) and with the transactional id "
            f"tablegate-replay-{self._dead.name}. Run this again: what was sent is not sent twice.",
            Exit.ERROR,
        ) from None
