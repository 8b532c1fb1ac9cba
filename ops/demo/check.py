"""The independent check: what must have come out, recomputed from the topics alone.

It shares no code with the job: it reads the table's log, the stream and the three outputs of one
job, and judges every order by positions. The rules:

1. A job that started when the table's log ended at E may join an order against the table as it
   stood at E or at any time after, never before. So each order has a *window*: the state of its
   key at E, and every later state up to the newest. E is that of the first start which could have
   processed the order; a later attempt is held to a later E in truth, never to an earlier one.
2. If the window holds rows only, a miss is a **wrong null**. If it holds no row, a hit is a
   **false hit**. A hit with a row from before the window is **stale**.
3. An order that is in no output is **lost**. One that is in the outputs more than once counts as a
   duplicate, which at-least-once delivery allows, and every copy is judged.
4. An order without a customer, or whose bytes are not a JSON object, belongs in the dead topic,
   and no other order does.
5. Key, headers, timestamp and (but for the added fields) value are as they were in the stream. A
   miss or dead letter with labels has its timestamp among them.

Pure functions over plain records; nothing here reads a clock or the network.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

Header = tuple[str, bytes | None]
Json = dict[str, object]

# Faults are shown with at most so many orders each: the count tells how bad, these tell where.
_EXAMPLES = 5
_DECILES = 10
_OWN_HEADERS = "tablegate-"


class Record(NamedTuple):
    """A Kafka record as read, whatever its topic. Timestamps are epoch milliseconds."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...]
    timestamp_ms: int


class Outputs(NamedTuple):
    """Everything that one job wrote."""

    enriched: Sequence[Record]
    retry: Sequence[Record]
    dead: Sequence[Record]


class Start(NamedTuple):
    """One start of the job.

    ``table_end``: the table's end offsets when it started. ``stream_end``: the stream's end offsets
    when this start's job had stopped for good; empty for the last start, which may read anything.
    """

    table_end: Mapping[int, int]
    stream_end: Mapping[int, int]


@dataclass(frozen=True)
class Rules:
    """What the job was told to do.

    ``fields`` maps a field of the row to its name in the enriched event. ``labelled`` says whether
    misses and dead letters must carry the verdict, the source and the attempt as headers.
    """

    stream_topic: str
    key_field: str
    fields: Mapping[str, str]
    id_header: str
    labelled: bool = True


class Fault(StrEnum):
    """What can be wrong with an order, in the order of the report."""

    WRONG_NULL = "wrong null"
    STALE = "stale join"
    LOST = "lost"
    FALSE_HIT = "false hit"
    WRONG_DEAD = "wrong dead letter"
    MISLABELLED = "wrong label"
    ALTERED = "altered"
    ALIEN = "belongs to no order"


@dataclass
class Decile:
    """A tenth of the table's log: the orders whose row stood there, and what became of them.

    ``lost`` of them missed the row or are in no output, ``stale`` got an older row instead.
    """

    events: int = 0
    lost: int = 0
    stale: int = 0


@dataclass
class Judgement:
    """The result for one job. Counts are of distinct orders, but for ``duplicates`` (copies).

    ``deciles`` places the orders that the first start found waiting, by where in the table's log,
    as it stood then, their row was. Orders without a row stand nowhere.
    """

    events: int = 0
    hits: int = 0
    misses: int = 0
    dead: int = 0
    duplicates: int = 0
    faults: Counter[Fault] = field(default_factory=Counter)
    examples: dict[Fault, list[str]] = field(default_factory=lambda: defaultdict(list))
    deciles: list[Decile] = field(default_factory=lambda: [Decile() for _ in range(_DECILES)])

    @property
    def right(self) -> bool:
        """True when nothing at all is wrong; duplicates are allowed."""
        return not self.faults.total()


class _State(NamedTuple):
    """The state of a key from ``offset`` on: the added fields, or None when there is no row."""

    partition: int
    offset: int
    added: Json | None
    verdict: str


# Before its first row. The offset is below every end offset, so every window may reach back to it.
_NEVER_WRITTEN = _State(0, -1, None, "NOT_FOUND")


class _Event(NamedTuple):
    """An order, and what may become of it.

    ``body`` is None when the value cannot be read, ``key`` when it names no customer. ``window``
    holds the states that the job may have seen, ``earlier`` those that it must not have seen.
    ``first`` says whether the first start could read it.
    """

    record: Record
    source: str
    start: Start
    first: bool
    body: Json | None
    key: str | None
    window: Sequence[_State]
    earlier: Sequence[_State]

    @property
    def dead_verdict(self) -> str | None:
        """The verdict of its dead letter, or None when it must be joined."""
        if self.body is None:
            return "BAD_RECORD"
        return "NO_KEY" if self.key is None else None


# A fault and the reason.
_Finding = tuple[Fault, str]


class _Copy(NamedTuple):
    """One judged output record: what it was, and what is wrong with it, each with the reason."""

    kind: str
    faults: list[_Finding]


Expected = Mapping[bytes | None, _Event]
"""What may become of each order, by the order's id."""


def expect(
    table: Iterable[Record], stream: Iterable[Record], starts: Sequence[Start], rules: Rules
) -> Expected:
    """Work out what may become of every order. The records of a topic may come in any sequence.

    Raises ValueError when that cannot be said: nothing ran, or two orders have one id.
    """
    if not starts:
        raise ValueError("starts is empty: nothing ran, so nothing can be judged")
    history = _history(table, rules)
    records = list(stream)
    events = {_identity(r, rules): _event(r, history, starts, rules) for r in records}
    if len(events) != len(records):
        raise ValueError(
            f"{rules.stream_topic} holds {len(records)} orders with only {len(events)} ids: "
            f"every order needs a {rules.id_header} header (or key) of its own"
        )
    return events


def judge(expected: Expected, outputs: Outputs, rules: Rules) -> Judgement:
    """Judge everything that one job wrote against what may become of each order."""
    result = Judgement(events=len(expected))
    copies: dict[bytes | None, list[_Copy]] = defaultdict(list)
    for kind, output in _all(outputs):
        identity = _identity(output, rules)
        event = expected.get(identity)
        if event is None:
            where = f"{kind}[{output.partition}]@{output.offset}"
            _note(result, {Fault.ALIEN: f"{where}: no order has the id {identity!r}"})
        else:
            copies[identity].append(_judge_copy(kind, output, event, rules))
    for identity, event in expected.items():
        faults = _settle(result, event, copies.get(identity, ()))
        if event.first:
            _place(result.deciles, event, faults)
    return result


def _history(table: Iterable[Record], rules: Rules) -> dict[str, list[_State]]:
    """Every state of every key, oldest first."""
    history: dict[str, list[_State]] = {}
    for record in sorted(table, key=lambda record: (record.partition, record.offset)):
        states = history.setdefault((record.key or b"").decode(), [_NEVER_WRITTEN])
        if record.value is None:
            states.append(_State(record.partition, record.offset, None, "DELETED"))
        else:
            row = json.loads(record.value)
            added = {name: row.get(column) for column, name in rules.fields.items()}
            states.append(_State(record.partition, record.offset, added, "HIT"))
    return history


def _event(
    record: Record, history: Mapping[str, list[_State]], starts: Sequence[Start], rules: Rules
) -> _Event:
    """What may become of an order: rule 1."""
    source = f"{rules.stream_topic}[{record.partition}]@{record.offset}"
    # The first start whose job could still read it. Later ones may have processed it in truth (it
    # was held back), but those are held to a later end, so this asks for less, never for too much.
    start = next(
        (s for s in starts[:-1] if record.offset < s.stream_end.get(record.partition, 0)),
        starts[-1],
    )
    body = _object(record.value)
    value = None if body is None else body.get(rules.key_field)
    key = value if isinstance(value, str) else None
    states = history.get(key or "", [_NEVER_WRITTEN])
    # The state at the start is the last one written before the table's end of that time.
    begin = max(
        i
        for i, state in enumerate(states)
        if state.offset < start.table_end.get(state.partition, 0)
    )
    return _Event(
        record, source, start, start is starts[0], body, key, states[begin:], states[:begin]
    )


def _judge_copy(kind: str, output: Record, event: _Event, rules: Rules) -> _Copy:
    """Judge one output record against its order: rules 2, 4 and 5."""
    body = _object(output.value) if kind == "enriched" else None
    found = list(_altered(kind, output, body, event, rules))
    judged = kind
    if (kind == "dead") != (event.dead_verdict is not None):
        found.append(
            (Fault.WRONG_DEAD, f"is {event.dead_verdict or 'an order that can be joined'}")
        )
    elif kind == "dead":
        found += _mislabelled(output, event, {str(event.dead_verdict)}, rules)
    else:
        added = {name: (body or {}).get(name) for name in rules.fields.values()}
        if any(value is not None for value in added.values()):
            judged = "hit"
            found += _judge_hit(added, event)
        else:
            # A bare null is a miss like any other, only worse to find.
            judged = "miss"
            allowed = {state.verdict for state in event.window if state.added is None}
            if not allowed:
                found.append(_wrong_null(event))
            elif kind == "retry":
                found += _mislabelled(output, event, allowed, rules)
    where = f"{event.source} -> {kind}[{output.partition}]@{output.offset}" if found else ""
    return _Copy(judged, [(fault, f"{where}: {what}") for fault, what in found])


def _judge_hit(added: Json, event: _Event) -> Iterator[_Finding]:
    if any(added == state.added for state in event.window):
        return
    expected = [state.added for state in event.window]
    what = f"customer {event.key} got {added}, expected one of {expected}"
    if all(state.added is None for state in event.window):
        yield Fault.FALSE_HIT, what
    elif any(added == state.added for state in event.earlier):
        yield Fault.STALE, what
    else:
        yield Fault.ALTERED, f"{what}, and no row ever held this"


def _wrong_null(event: _Event) -> _Finding:
    row = event.window[0]
    end = event.start.table_end.get(row.partition)
    where = f"[{row.partition}]@{row.offset}"
    return Fault.WRONG_NULL, f"customer {event.key} had a row at {where}, below the end {end}"


def _altered(
    kind: str, output: Record, body: Json | None, event: _Event, rules: Rules
) -> Iterator[_Finding]:
    """What of the order is not as it was: rule 5."""
    was = event.record
    if output.key != was.key:
        yield Fault.ALTERED, f"the key was {was.key!r}, is {output.key!r}"
    label = dict(output.headers).get("tablegate-timestamp") if kind != "enriched" else None
    timestamp = (label or str(output.timestamp_ms).encode()).decode(errors="replace")
    if timestamp != str(was.timestamp_ms):
        yield Fault.ALTERED, f"the timestamp was {was.timestamp_ms}, is {timestamp}"
    headers = tuple(h for h in output.headers if not h[0].startswith(_OWN_HEADERS))
    # A multiset: Flink hands headers over as a map, which has no order of its own.
    if headers != was.headers and Counter(headers) != Counter(was.headers):
        yield Fault.ALTERED, f"the headers were {was.headers}, are {headers}"
    if kind != "enriched":
        if output.value != was.value:
            yield Fault.ALTERED, f"the value was {was.value!r}, is {output.value!r}"
    elif body is None:
        yield Fault.ALTERED, f"the value is not a JSON object: {output.value!r}"
    elif event.body is not None:
        added = rules.fields.values()
        rest = {name: value for name, value in body.items() if name not in added}
        if rest != event.body:
            yield Fault.ALTERED, f"the value was {event.body}, without the added fields {rest}"


def _mislabelled(
    output: Record, event: _Event, verdicts: set[str], rules: Rules
) -> Iterator[_Finding]:
    """The headers that say why an order was not joined."""
    if not rules.labelled:
        return
    labels = {name: (value or b"").decode() for name, value in output.headers}
    for name, expected in (
        ("tablegate-verdict", verdicts),
        ("tablegate-source", {event.source}),
        ("tablegate-attempt", {"1"}),
    ):
        if labels.get(name) not in expected:
            what = f"{name} is {labels.get(name)!r}, expected {' or '.join(sorted(expected))}"
            yield Fault.MISLABELLED, what
    if not labels.get("tablegate-first-seen", "").isdigit():
        seen = labels.get("tablegate-first-seen")
        yield Fault.MISLABELLED, f"tablegate-first-seen is {seen!r}, expected epoch ms"


def _settle(result: Judgement, event: _Event, copies: Sequence[_Copy]) -> Iterable[Fault]:
    """Count an order by all of its copies: once in hits, misses or dead, and once per fault."""
    kinds = {copy.kind for copy in copies}
    faults: dict[Fault, str] = {}
    for copy in copies:
        faults.update(reversed(copy.faults))
    if "hit" in kinds:
        result.hits += 1
    elif "miss" in kinds:
        result.misses += 1
    elif kinds:
        result.dead += 1
    else:
        faults[Fault.LOST] = f"{event.source}: in no output"
    result.duplicates += max(0, len(copies) - 1)
    _note(result, faults)
    return faults


def _place(deciles: Sequence[Decile], event: _Event, faults: Iterable[Fault]) -> None:
    row = event.window[0]
    if row.added is not None:
        end = event.start.table_end[row.partition]
        decile = deciles[row.offset * _DECILES // end]
        decile.events += 1
        if {Fault.WRONG_NULL, Fault.LOST}.intersection(faults):
            decile.lost += 1
        elif Fault.STALE in faults:
            decile.stale += 1


def _note(result: Judgement, faults: Mapping[Fault, str]) -> None:
    for fault, example in faults.items():
        result.faults[fault] += 1
        if len(result.examples[fault]) < _EXAMPLES:
            result.examples[fault].append(example)


def _all(outputs: Outputs) -> Iterator[tuple[str, Record]]:
    for kind, records in zip(outputs._fields, outputs, strict=True):
        for record in records:
            yield kind, record


def _identity(record: Record, rules: Rules) -> bytes | None:
    """The id header, or the key when there is no such header."""
    for name, value in record.headers:
        if name == rules.id_header:
            return value
    return record.key


def _object(value: bytes | None) -> Json | None:
    """The JSON object, or None when the bytes are not one."""
    try:
        body = json.loads(value or b"")
    except ValueError:  # JSONDecodeError and UnicodeDecodeError both
        return None
    return body if isinstance(body, dict) else None
