"""What is done with one system: start, probe, full speed, half load, restarts, a cold backlog."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from bench.systems.contract import Run, System, Work
from bench.versus.ground import (
    ROWS_AGE_MS,
    Answer,
    Size,
    Topics,
    answer,
    answers,
    fill_table,
    now_ms,
    write_delta,
)
from bench.versus.model import Figures, fastest, quantile, steady
from bench.versus.observe import Ends, Observer, Sample
from bench.versus.scan import scan_s
from bench.versus.writers import Events
from ops.demo import topics

_POLL_S = 0.1
_PROBE_EVERY_S = 0.25
# The newest rows, which lie in all partitions: each partition is loaded for itself.
_PROBED_ROWS = 16
# The margin over what has been seen: a system may still become faster.
_BACKLOG_MARGIN = 1.25
# Of writing: while a fast system is being written for, it works off what was written.
_TRIES = 6
# Of the seconds that were asked for.
_ENOUGH = 0.75
_WARM_UP_S = 8.0
_LATENCY_WARM_UP_S = 5.0
_MOST_EVENTS = 20_000_000


@dataclass(frozen=True)
class Plan:
    """How long each phase is, and how large."""

    size: Size
    parallelism: int = 1
    warm_up_events: int = 100_000
    seconds: float = 60.0
    """Of full speed, measured after the warm-up."""
    latency_seconds: float = 20.0
    cold_events: int = 200_000
    """Waiting before a cold start; 0: no cold start with waiting events."""
    delta_rows: int = 100_000
    """Written while a system is down; 0: no restarts."""
    limit_events: int = 15_000_000
    """What a limit works off; it is faster than anybody writes while it runs."""
    patience_s: float = 900.0
    options: Mapping[str, str] = dataclasses.field(default_factory=dict)


class Ground(NamedTuple):
    """Where it is done."""

    brokers: str
    place: Path


def is_limit(system: System) -> bool:
    """Whether it only passes events on, and is no join."""
    return system.name.startswith("limit-")


def measure(ground: Ground, system: System, plan: Plan, name: str) -> Figures:
    """One run of one system in all phases.

    Raises:
        RuntimeError: the system ended or did not start.
        TimeoutError: a phase took longer than the plan's patience.
    """
    if is_limit(system):
        return _limit(ground, system, plan, name)
    figures = _warm(ground, system, plan, name)
    if plan.cold_events:
        cold = _cold(ground, system, plan, f"{name}-cold", ROWS_AGE_MS)
        young = _cold(ground, system, plan, f"{name}-young", -ROWS_AGE_MS)
        figures = dataclasses.replace(
            figures, drain_per_s=cold.per_s, wrong_cold=cold.wrong, wrong_young=young.wrong
        )
    return figures


def _warm(ground: Ground, system: System, plan: Plan, name: str) -> Figures:
    """Table first, then events: what a running system does, and what a restart costs it."""
    with _work(ground, plan, name) as work:
        fill_table(ground.brokers, work.table, plan.size)
        events = Events(ground.brokers, work.stream, plan.size.rows)
        began_ms = now_ms()
        with system.start(work) as run:
            watch = _Watch(ground, system, plan, work, run, events)
            opened_s = _since_start(run, began_ms, watch.until_right())
            with Observer(ground.brokers, work.enriched, work.partitions, run.pids) as observer:
                full = watch.full_speed(observer)
                latencies = watch.latencies(full.rate / 2)
                figures = _running(system, full, latencies, observer)
            state = run.state_bytes()
            quiet = delta = None
            if system.restarts and plan.delta_rows:
                run.stop()
        if system.restarts and plan.delta_rows:
            quiet = _restarted(ground, system, plan, work, events, stop=True)
            write_delta(ground.brokers, work.table, plan.size, plan.delta_rows)
            delta = _restarted(ground, system, plan, work, events, stop=False, revision=1)
    return dataclasses.replace(
        figures,
        open_s=opened_s,
        state_mb=None if state is None else state / 1e6,
        wrong_warm=watch.wrong,
        restart_s=quiet and quiet.seconds,
        restart_gate_s=quiet and quiet.gate_s,
        restart_delta_s=delta and delta.seconds,
    )


def _limit(ground: Ground, system: System, plan: Plan, name: str) -> Figures:
    """All events first, then the start; there is no table."""
    with _work(ground, plan, name) as work:
        events = Events(ground.brokers, work.stream, plan.size.rows)
        events.write(plan.limit_events)
        with (
            system.start(work) as run,
            Observer(ground.brokers, work.enriched, work.partitions, run.pids) as observer,
        ):
            watch = _Watch(ground, system, plan, work, run, events)
            _wait(lambda: observer.last().written > 0, run, plan, "the first event")
            full = watch.middle(observer)
            if not full.seconds:
                raise RuntimeError(f"{plan.limit_events:,} events are too few")
            return _running(system, full, watch.latencies(full.rate / 2), observer)


def _running(system: System, full: _Full, latencies: list[float], observer: Observer) -> Figures:
    """What was seen of a system that runs; the rest is still to be filled in."""
    return Figures(
        system=system.name,
        open_s=None,
        events_per_s=full.rate,
        seconds=full.seconds,
        cores=full.cores,
        p50_ms=quantile(latencies, 0.5),
        p99_ms=quantile(latencies, 0.99),
        peak_memory_mb=max(sample.memory_bytes for sample in observer.samples()) / 1e6,
        state_mb=None,
        wrong_warm=0,
    )


def _cold(ground: Ground, system: System, plan: Plan, name: str, age_ms: int) -> Drained:
    """Events wait when the system starts on an empty state: what it makes of them, and how fast."""
    with _work(ground, plan, name) as work:
        fill_table(ground.brokers, work.table, plan.size, age_ms)
        Events(ground.brokers, work.stream, plan.size.rows).write(plan.cold_events)
        with system.start(work) as run:
            ends = Ends(ground.brokers, work.enriched, work.partitions)
            try:
                _wait(lambda: ends.count() >= plan.cold_events, run, plan, "the waiting events")
            finally:
                ends.close()
            found = list(answers(ground.brokers, work.enriched))
    return drained(found)


class Drained(NamedTuple):
    """What came of the events that waited before a start."""

    per_s: float | None
    """From the first out to the last; None: all at once."""
    wrong: int
    """Those that never came out right."""


def drained(found: list[Answer]) -> Drained:
    """Raises ValueError when nothing came out."""
    first, last = min(one.at_ms for one in found), max(one.at_ms for one in found)
    right = {one.n for one in found if one.right}
    return Drained(
        per_s=len(found) / ((last - first) / 1000) if last > first else None,
        wrong=len({one.n for one in found} - right),
    )


def _since_start(run: Run, began_ms: int, at_ms: int) -> float:
    """Seconds; of what runs on a cluster from its submission on."""
    began_s = began_ms / 1000 if run.submitted_s is None else run.submitted_s
    return at_ms / 1000 - began_s


class _Restarted(NamedTuple):
    seconds: float
    """From the start until events written after it were out, and right."""
    gate_s: float | None
    """See ``Run.gate_open_s``."""


def _restarted(
    ground: Ground,
    system: System,
    plan: Plan,
    work: Work,
    events: Events,
    *,
    stop: bool,
    revision: int = 0,
) -> _Restarted:
    began_ms = now_ms()
    with system.start(work) as run:
        watch = _Watch(ground, system, plan, work, run, events)
        restarted = _Restarted(
            _since_start(run, began_ms, watch.until_right(revision)), run.gate_open_s()
        )
        if stop:
            run.stop()
    return restarted


class _Full(NamedTuple):
    rate: float
    seconds: float
    cores: float


class _Watch:
    """One system that runs, with the means to ask it for something."""

    def __init__(
        self,
        ground: Ground,
        system: System,
        plan: Plan,
        work: Work,
        run: Run,
        events: Events,
    ) -> None:
        self._brokers, self._joined = ground.brokers, not is_limit(system)
        self._plan, self._work, self._run, self._events = plan, work, run, events
        self.wrong = 0

    def until_right(self, revision: int = 0) -> int:
        """Write events for the newest rows until one of each comes out right (epoch ms).

        ``revision`` is that of these rows which is right.
        """
        reader = topics.Reader(self._brokers, [self._work.enriched])
        rows = self._plan.size.rows
        left = set(range(max(0, rows - _PROBED_ROWS), rows))
        asked: dict[int, int] = {}
        try:
            until = time.monotonic() + self._plan.patience_s
            due = time.monotonic()
            while time.monotonic() < until:
                _alive(self._run)
                if time.monotonic() >= due:
                    asked |= self._events.probe(sorted(left))
                    due += _PROBE_EVERY_S
                for _, record in reader.poll(0.05):
                    found = answer(
                        record.value, record.timestamp_ms, joined=self._joined, revision=revision
                    )
                    if found.right:
                        left.discard(asked.get(found.n, -1))
                    if not left:
                        return found.at_ms
        finally:
            reader.close()
        raise TimeoutError(
            f"no right answer for the rows {sorted(left)} in {self._plan.patience_s:.0f} s"
        )

    def full_speed(self, observer: Observer) -> _Full:
        """Let it work off more than it can, and look at the middle of that."""
        plan = self._plan
        self._events.write(plan.warm_up_events)
        self._all_out(observer)
        # Not from the first events: JIT compilers and caches are cold then.
        began, before = time.monotonic(), observer.last()
        self._events.write(plan.warm_up_events)
        self._all_out(observer)
        rate = (observer.last().written - before.written) / (time.monotonic() - began)
        for _ in range(_TRIES):
            began = time.monotonic()
            self._pile_up(observer, rate, (plan.seconds + _WARM_UP_S) * _BACKLOG_MARGIN)
            full = self.middle(observer)
            if full.seconds >= plan.seconds * _ENOUGH:
                return full
            # It was faster than it seemed: all is out, and more has to wait.
            rate = max(rate, fastest(_since(observer, began)))
        raise RuntimeError(f"{self._plan.seconds:g} s of work could not be made to wait")

    def middle(self, observer: Observer) -> _Full:
        """What it makes of the events that wait, from some seconds after now on."""
        warm = time.monotonic() + _WARM_UP_S
        self._all_out(observer, until=warm + self._plan.seconds)
        return _Full(*steady(_since(observer, warm), self._events.count))

    def _pile_up(self, observer: Observer, rate: float, seconds: float) -> None:
        """Write so much that it has to work for so long from now on, as fast as it turns out."""
        for _ in range(_TRIES):
            began = time.monotonic()
            left = self._events.count - observer.last().written
            more = math.ceil(rate * seconds) - left
            if more <= 0:
                return
            self._events.write(min(more, _MOST_EVENTS))
            # Meanwhile it has worked, and maybe faster than it did when it was cold. By samples
            # that are some time apart: a write can take less time than there is between two.
            rate = max(rate, fastest(_since(observer, began)))

    def latencies(self, rate: float) -> list[float]:
        """Milliseconds from an event's write to that of its enriched record, at that load."""
        # What is left of the backlog goes first.
        with Observer(
            self._brokers, self._work.enriched, self._work.partitions, self._run.pids
        ) as observer:
            self._all_out(observer)
            since = topics.ends(self._brokers, self._work.enriched)
            first = self._events.count
            written = self._events.paced(rate, _LATENCY_WARM_UP_S + self._plan.latency_seconds)
            self._all_out(observer)
        counted = first + int(rate * _LATENCY_WARM_UP_S)
        found: dict[int, int] = {}
        enriched = self._work.enriched
        for one in answers(self._brokers, enriched, joined=self._joined, since=since):
            if one.n >= first:
                self.wrong += not one.right
                found.setdefault(one.n, one.at_ms)
        return [float(found[n] - written[n]) for n in written if n >= counted]

    def _all_out(self, observer: Observer, until: float = math.inf) -> None:
        def met() -> bool:
            return time.monotonic() >= until or observer.last().written >= self._events.count

        _wait(met, self._run, self._plan, "all events")


def _since(observer: Observer, at_s: float) -> list[Sample]:
    return [sample for sample in observer.samples() if sample.at_s >= at_s]


def scanned(ground: Ground, plan: Plan, name: str) -> float:
    """Seconds in which Flink reads such a table topic, and does nothing with it."""
    with _work(ground, plan, name) as work:
        fill_table(ground.brokers, work.table, plan.size)
        return scan_s(work)


@contextmanager
def _work(ground: Ground, plan: Plan, name: str) -> Iterator[Work]:
    names = Topics.of(name)
    names.create(ground.brokers, plan.size.partitions)
    place = ground.place / name
    place.mkdir()
    with ExitStack() as stack:
        stack.callback(names.delete, ground.brokers, name)
        yield Work(
            brokers=ground.brokers,
            name=name,
            stream=names.stream,
            table=names.table,
            enriched=names.enriched,
            place=place,
            partitions=plan.size.partitions,
            parallelism=plan.parallelism,
            options=plan.options,
        )


def _alive(run: Run) -> None:
    if problem := run.problem():
        raise RuntimeError(problem)


def _wait(met: Callable[[], bool], run: Run, plan: Plan, what: str) -> None:
    until = time.monotonic() + plan.patience_s
    while not met():
        _alive(run)
        if time.monotonic() > until:
            raise TimeoutError(f"{what}: not out after {plan.patience_s:.0f} s")
        time.sleep(_POLL_S)
