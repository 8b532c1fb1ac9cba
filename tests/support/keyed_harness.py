"""Runs a keyed (co-)process function without a JVM: state, timers of both kinds, side outputs.

What the function is given is what PyFlink documents; state is pickled in and out as PyFlink does,
so that a value which does not survive that fails here too.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from typing import Any

from pyflink.common import Row
from pyflink.datastream import OutputTag, TimeDomain
from pyflink.datastream.functions import (
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
)

NO_WATERMARK = -(2**63)

State = dict[str, dict[str, Any]]


class _Counter:
    def __init__(self) -> None:
        self.count = 0

    def inc(self, n: int = 1) -> None:
        self.count += n


class _Metrics:
    """Counters by name; one of the group ("verdict", "HIT") is "verdict.HIT.NAME"."""

    def __init__(self, counters: dict[str, _Counter] | None = None, scope: str = "") -> None:
        self.counters: dict[str, _Counter] = {} if counters is None else counters
        self._scope = scope

    def add_group(self, name: str, extra: str) -> _Metrics:
        return _Metrics(self.counters, f"{self._scope}{name}.{extra}.")

    def counter(self, name: str) -> _Counter:
        return self.counters.setdefault(self._scope + name, _Counter())


class _Keyed:
    """State of the current key only, as Flink scopes it."""

    def __init__(self, harness: Harness, name: str) -> None:
        self._harness, self._name = harness, name

    @property
    def _slot(self) -> dict[str, Any]:
        return self._harness.state.setdefault(self._name, {})

    def _get(self) -> Any:
        stored = self._slot.get(self._harness.key)
        return None if stored is None else pickle.loads(stored)  # noqa: S301

    def _put(self, value: Any) -> None:
        self._slot[self._harness.key] = pickle.dumps(value)

    def clear(self) -> None:
        self._slot.pop(self._harness.key, None)


class _Value(_Keyed):
    def value(self) -> Any:
        return self._get()

    def update(self, value: Any) -> None:
        self._put(value)


class _Map(_Keyed):
    def put(self, key: Any, value: Any) -> None:
        # Newest first: a map state promises no order, and RocksDB and the heap differ.
        self._put({key: value} | (self._get() or {}) | {key: value})

    def get(self, key: Any) -> Any:
        return (self._get() or {}).get(key)

    def remove(self, key: Any) -> None:
        left = self._get() or {}
        del left[key]
        if left:
            self._put(left)
        else:
            # Flink knows no empty map state.
            self.clear()

    def keys(self) -> Iterable[Any]:
        return (self._get() or {}).keys()


class _Broadcast:
    """State without a key, under a name that no state of keys has."""

    def __init__(self, harness: Harness, name: str) -> None:
        self._slot = harness.state.setdefault(name, {})

    def get(self, key: str) -> Any:
        stored = self._slot.get(key)
        return None if stored is None else pickle.loads(stored)  # noqa: S301

    def put(self, key: str, value: Any) -> None:
        self._slot[key] = pickle.dumps(value)


class _RowContext:
    """What a function is given with a record of its broadcast input: no key, no timers."""


class HarnessSubtask:
    """In the place of ``udfs.subtask.JvmSubtask``: a subtask to which every key belongs."""

    crosses = False
    heap_bytes = 1 << 30

    def __init__(self, harness: Harness) -> None:
        self.context = self._harness = harness

    def broadcast_state(self, descriptor: Any) -> _Broadcast:
        return _Broadcast(self._harness, descriptor.name)

    def entries(self, descriptor: Any) -> int:
        return len(self._harness.state[descriptor.name])

    def keys_with(self, state: str) -> Iterator[str]:
        return iter([*self._harness.state.get(state, {})])

    def take(self, key: str) -> None:
        assert self.owns(key)
        self._harness.key = key

    def owns(self, routed: str) -> bool:
        return True


class Harness:
    """One subtask of ``function``. Collects its output in ``out``, side outputs by tag id.

    Of a function whose second input is broadcast, tests put a HarnessSubtask in the place of the
    JVM's, see ``tests.functions.conftest``.
    """

    def __init__(
        self,
        function: KeyedBroadcastProcessFunction | KeyedCoProcessFunction | KeyedProcessFunction,
        state: State | None = None,
        timers: Any = (),
        clock_timers: Any = (),
    ) -> None:
        self.state: State = {} if state is None else state
        self.timers: set[tuple[int, str]] = set(timers)
        self.clock_timers: set[tuple[int, str]] = set(clock_timers)
        self._domain = TimeDomain.EVENT_TIME
        self.watermark = NO_WATERMARK
        self.key = ""
        self.now_ms = 0
        self.out: list[Row] = []
        self.side: dict[str, list[Row]] = {}
        self.metrics = _Metrics()
        # As Flink does: what runs on the worker came through pickle.
        self.function = pickle.loads(pickle.dumps(function))  # noqa: S301
        self.function.open(self)

    # -- what the function sees: runtime context, context and timer service in one

    def get_state(self, descriptor: Any) -> _Value:
        return _Value(self, descriptor.name)

    def get_map_state(self, descriptor: Any) -> _Map:
        return _Map(self, descriptor.name)

    def get_metrics_group(self) -> _Metrics:
        return self.metrics

    def timer_service(self) -> Harness:
        return self

    def current_watermark(self) -> int:
        return self.watermark

    def current_processing_time(self) -> int:
        return self.now_ms

    def register_event_time_timer(self, timestamp: int) -> None:
        self.timers.add((timestamp, self.key))

    def register_processing_time_timer(self, timestamp: int) -> None:
        self.clock_timers.add((timestamp, self.key))

    def time_domain(self) -> TimeDomain:
        return self._domain

    def get_current_key(self) -> str:
        return self.key

    # -- what the test does

    def event(self, key: str, value: Any) -> None:
        self.key = key
        two = isinstance(self.function, KeyedCoProcessFunction)
        process = self.function.process_element1 if two else self.function.process_element
        self._collect(process(value, self))

    def row(self, key: str, value: Any) -> None:
        if isinstance(self.function, KeyedBroadcastProcessFunction):
            # Flink's current key is that of the record before, which has nothing to do with it.
            self.key = "the key of some record before"
            row_context = _RowContext()
            self._collect(self.function.process_broadcast_element((key, value), row_context))
            return
        self.key = key
        self._collect(self.function.process_element2(value, self))

    def advance(self, watermark: int) -> None:
        """The watermark rises; timers at or below it fire, each with its key."""
        self.watermark = watermark
        for due in sorted(t for t in self.timers if t[0] <= watermark):
            self.timers.discard(due)
            timestamp, self.key = due
            self._domain = TimeDomain.EVENT_TIME
            self._collect(self.function.on_timer(timestamp, self))

    def clock(self, now_ms: int) -> None:
        """Processing time is ``now_ms``; timers at or below it fire in their order."""
        self.now_ms = now_ms
        while due := [timer for timer in self.clock_timers if timer[0] <= now_ms]:
            first = min(due)
            self.clock_timers.discard(first)
            timestamp, self.key = first
            self._domain = TimeDomain.PROCESSING_TIME
            self._collect(self.function.on_timer(timestamp, self))

    def restarted(
        self,
        function: KeyedBroadcastProcessFunction | KeyedCoProcessFunction | KeyedProcessFunction,
    ) -> Harness:
        """A new attempt from this one's state: no watermark yet, output and counters anew."""
        state = {name: dict(keys) for name, keys in self.state.items()}
        return Harness(function, state, self.timers, self.clock_timers)

    def held(self) -> int:
        first = [pickle.loads(v) for v in self.state.get("held-first", {}).values()]  # noqa: S301
        more = [pickle.loads(v) for v in self.state.get("held-more", {}).values()]  # noqa: S301
        return sum(len(events) for _, events in first) + sum(map(len, more))

    def parked(self) -> int:
        queues = self.state.get("parked", {}).values()
        return sum(len(pickle.loads(queue)) for queue in queues)  # noqa: S301

    def count(self, name: str) -> int:
        """Of the counter of this attempt with this name."""
        return self.metrics.counter(name).count

    def _collect(self, outputs: Iterator[Any] | None) -> None:
        for output in outputs or ():
            if isinstance(output, tuple) and isinstance(output[0], OutputTag):
                self.side.setdefault(output[0].tag_id, []).append(output[1])
            else:
                self.out.append(output)
