"""The wait of a retry record until it is due, in Flink state: none holds up another.

The records of a key are kept by the tenth of a second in which they are due, with a count for each
such bucket: a timer reads what is its own and nothing else, however many wait behind it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyflink.common import Types
from pyflink.datastream.functions import KeyedProcessFunction, RuntimeContext
from pyflink.datastream.state import MapStateDescriptor

from udfs.core.retry import MAX_DELAY_MS, due_of
from udfs.records import Record, pair, read_record, retried

_BUCKET_MS = 100
# Records of one key that are due in one bucket: its number and theirs share a long.
_PER_BUCKET = 1 << 20


def counts_state() -> MapStateDescriptor:
    """How many records wait in a bucket, by its time (epoch ms)."""
    return MapStateDescriptor("retry-counts", Types.LONG(), Types.LONG())


def waiting_state() -> MapStateDescriptor:
    """The waiting records: bucket and number to the fields of a Record."""
    return MapStateDescriptor("retry-waiting", Types.LONG(), Types.PICKLED_BYTE_ARRAY())


class RetryDelay(KeyedProcessFunction):
    """Lets each record of the retry topic through when it is due, marked as one that comes again.

    Its input is of ``udfs.records.record_type``, keyed by the join key; its output of
    ``udfs.records.pair_type``, to be keyed again.
    """

    def open(self, runtime_context: RuntimeContext) -> None:
        self._counts = runtime_context.get_map_state(counts_state())
        self._waiting = runtime_context.get_map_state(waiting_state())

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        record = retried(read_record(value))
        timers = ctx.timer_service()
        now_ms = timers.current_processing_time()
        # Anyone can write a header: no record waits for longer than one of ours could.
        due_ms = min(due_of(record.headers), now_ms + MAX_DELAY_MS)
        bucket = -(-due_ms // _BUCKET_MS) * _BUCKET_MS
        count = 0 if due_ms <= now_ms else self._counts.get(bucket) or 0
        if due_ms <= now_ms or count >= _PER_BUCKET:
            yield pair(record)
            return
        self._waiting.put(bucket * _PER_BUCKET + count, tuple(record))
        self._counts.put(bucket, count + 1)
        timers.register_processing_time_timer(bucket)

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[Any]:
        count = self._counts.get(timestamp)
        if count is None:
            return
        for number in range(timestamp * _PER_BUCKET, timestamp * _PER_BUCKET + count):
            yield pair(Record(*self._waiting.get(number)))
            self._waiting.remove(number)
        self._counts.remove(timestamp)
