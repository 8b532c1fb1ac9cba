"""Misses that wait a little for their row: a queue for each key, in Flink state.

Many a miss is a row that comes a second later, because two systems write the two topics. So a miss
is not told at once: the event is parked under its key until its row comes, or until its grace ends.

The queue is in the order in which the events were missed, which is that of their deadlines too:
whoever takes from it takes from its head. It is kept as single entries and not as a list, since a
key that everybody asks for and nobody wrote may have tens of thousands.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from pyflink.common import Types
from pyflink.datastream.functions import KeyedCoProcessFunction, RuntimeContext
from pyflink.datastream.state import MapStateDescriptor, ValueStateDescriptor

from udfs.core.misses import GRACE_LIMIT_MS
from udfs.records import Record

# Each key with parked events has a timer of processing time, at most so far ahead. So after a
# restart, whatever the grace and the policy were before it, all keys that have parked events are
# known after this time, and not earlier.
_LOOK_MS = GRACE_LIMIT_MS


def ends_state() -> ValueStateDescriptor:
    """A key's queue: the numbers of its first entry and of the next one to come.

    Behind these, when its first entries have been told, the number of the first that has not. A
    value, so that one point read tells whether anything is parked.
    """
    return ValueStateDescriptor("parked-ends", Types.PICKLED_BYTE_ARRAY())


def parked_state() -> MapStateDescriptor:
    """The parked events: number in the queue to the fields of :class:`Parked`."""
    return MapStateDescriptor("parked", Types.LONG(), Types.PICKLED_BYTE_ARRAY())


class Parked(NamedTuple):
    """A parked event. Times in epoch milliseconds."""

    until_ms: int
    """When its grace ends."""
    read_ms: int
    """When it was first read."""
    event: Record
    told: bool = False
    """Whether its grace is over and it waits on: told to outputs that want it without its row."""
    restored: bool = False
    """Whether an attempt before this one parked it."""


class Grace:
    """One subtask's parked events. All methods but ``may_have`` speak of the current key.

    ``restored_keys``, where somebody knows them, are all keys with events from an attempt before.
    """

    def __init__(
        self,
        context: RuntimeContext,
        grace_ms: int,
        now_ms: int,
        restored_keys: Iterable[str] | None = None,
    ) -> None:
        self._ends = context.get_state(ends_state())
        self._parked = context.get_map_state(parked_state())
        self._grace_ms = grace_ms
        # Every row of the table asks whether its key has parked events, so that the keys are also
        # kept here, with the number of the first event that this attempt parked (None: it parked
        # none). If some were restored, nothing is known of them until their timers have fired.
        self._keys: dict[str | None, int | None] = dict.fromkeys(restored_keys or ())
        self._all_known_ms = now_ms + _LOOK_MS + 1
        self._all_known = restored_keys is not None or not _may_be_restored(context)
        self._asked = False

    def may_have(self, key: str | None, ctx: KeyedCoProcessFunction.Context) -> bool:
        """Whether events may be parked under ``key``, which is the current one."""
        if self._all_known:
            return key in self._keys
        if not self._asked:
            self._asked = True
            # Timers fire in order of time, whatever their key: when this one does, so have those
            # of all events that were restored.
            ctx.timer_service().register_processing_time_timer(self._all_known_ms)
        return key is not None and self.any_parked()

    def fired(self, timestamp_ms: int) -> None:
        """Take note that a processing-time timer fired."""
        if timestamp_ms >= self._all_known_ms:
            self._all_known = True

    def park(
        self,
        key: str,
        event: Record,
        read_ms: int,
        now_ms: int,
        ctx: KeyedCoProcessFunction.Context,
    ) -> None:
        """Add an event to the end of the queue."""
        parked = Parked(now_ms + self._grace_ms, read_ms, event)
        head, tail, told = self._queue()
        if told == tail:
            # One timer for a key: who takes from the queue sets the next one.
            ctx.timer_service().register_processing_time_timer(parked.until_ms)
        self._parked.put(tail, (parked.until_ms, read_ms, *event))
        self._set_queue(head, tail + 1, told)
        if self._keys.get(key) is None:
            self._keys[key] = tail

    def take(self, key: str | None, wanted: Callable[[Parked], bool]) -> Iterator[Parked]:
        """Take events from the head of the queue, as long as they are ``wanted``."""
        head, tail, told = self._queue()
        began, own = head, self._keys.get(key)
        while head < tail:
            parked = self._read(head)._replace(told=head < told, restored=own is None or head < own)
            if not wanted(parked):
                break
            self._parked.remove(head)
            head += 1
            yield parked
        if head == tail:
            self._keys.pop(key, None)
            if head > began:
                self._ends.clear()
        else:
            self._keys.setdefault(key, None)
            if head > began:
                self._set_queue(head, tail, told)

    def tell(self, is_over: Callable[[Parked], bool]) -> Iterator[Parked]:
        """The events whose grace ``is_over`` and who have not been told; they stay in the queue."""
        head, tail, told = self._queue()
        began = told
        while told < tail:
            parked = self._read(told)
            if not is_over(parked):
                break
            told += 1
            yield parked
        if told > began:
            self._set_queue(head, tail, told)

    def any_parked(self) -> bool:
        """Whether the current key has parked events, by the state itself."""
        return self._ends.value() is not None

    def first(self) -> Parked | None:
        """The event that has been parked for longest, None when there is none."""
        head, tail, _ = self._queue()
        return self._read(head) if head < tail else None

    def first_untold(self) -> Parked | None:
        """The one of those whose grace has not been seen to be over."""
        _, tail, told = self._queue()
        return self._read(told) if told < tail else None

    @staticmethod
    def next_look_ms(key: str, now_ms: int) -> int:
        """When to look again at events of ``key`` that wait without an end.

        The same moment whenever it is asked for between two looks, so that a key has one timer; and
        each key has moments of its own, as a hundred thousand at once would hold up the subtask.
        """
        shift_ms = zlib.crc32(key.encode(errors="surrogatepass")) % _LOOK_MS
        return ((now_ms - shift_ms) // _LOOK_MS + 1) * _LOOK_MS + shift_ms

    def _queue(self) -> tuple[int, int, int]:
        head, tail, *told = self._ends.value() or (0, 0)
        return head, tail, max([head, *told])

    def _set_queue(self, head: int, tail: int, told: int) -> None:
        self._ends.update((head, tail, told) if told > head else (head, tail))

    def _read(self, number: int) -> Parked:
        until_ms, read_ms, *event = self._parked.get(number)
        return Parked(until_ms, read_ms, Record(*event))


def _may_be_restored(context: RuntimeContext) -> bool:
    """Whether any key may have parked events from an attempt before this one.

    Asked of Flink's own state backend, which PyFlink does not show; in a worker process it is not
    to be had, and then there may be some. For the usual start, where there are none, it saves a
    look at the state for each row of the load.
    """
    try:
        from pyflink.fn_execution.embedded.state_impl import (  # noqa: PLC0415  (thread mode only)
            JVoidNamespace_INSTANCE,
        )

        backend = context.get_keyed_state_backend()._keyed_state_backend  # noqa: SLF001
        keys = backend.getKeys(ends_state().name, JVoidNamespace_INSTANCE)
    except (ImportError, AttributeError):
        return True
    try:
        return bool(keys.findAny().isPresent())
    finally:
        keys.close()
