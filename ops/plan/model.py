"""What a start of the job costs, with the gate and without. Values in, values out.

::

    hold      H = start + rows / L            nothing leaves; events arrive with rate a
    waiting   W = backlog + a * H             at most `slack` of them for each subtask in state
    catch-up  T = (W + h * (c / r - 1)) / (p * c - a)

``L`` is the load rate, of one subtask whatever the parallelism ``p``. ``c`` is the join's rate and
``r`` that of events released from state, each for one subtask; ``h`` are the events in state. The
last line is the time in which W events and those that arrive meanwhile are worked off: h with
rate p * r, the others with p * c. With r = c and an empty backlog it is H * load / (1 - load),
where load = a / (p * c); so at 90 % of the capacity each second of hold costs nine of catch-up.

An exposed event is one that a job without a gate joins while the table is read: as many as there
are until the table is loaded, and no more than the join can take in that time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace

from ops.plan.figures import Figure, Origin

_STEPS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """What is known before; see the module for the letters. Rates are for one subtask.

    ``rows`` are records of the table to read: all of them, or after a restart those written since.
    ``start`` is in seconds, from the stop of the old job (or the submission of a first one) until
    the table is being read. ``backlog`` are the events that wait before that. ``within`` is the
    time (s) that a catch-up may take. ``retention`` (s) is the stream topic's, None: for ever, or
    not known. ``paused`` says whether the stream's source is paused while the table loads,
    ``broadcast`` whether each subtask keeps the whole table on the heap.
    """

    rows: Figure
    events_per_s: Figure
    load_rate: Figure
    join_rate: Figure
    release_rate: Figure
    start: Figure
    backlog: Figure
    slack: Figure
    parallelism: Figure
    within: Figure
    row_bytes: Figure | None = None
    event_bytes: Figure | None = None
    measured_row_bytes: Figure | None = None
    retention: Figure | None = None
    restart: bool = False
    paused: bool = True
    broadcast: bool = False

    def items(self) -> Iterator[tuple[str, Figure]]:
        """Name and figure of each number that there is."""
        for field in fields(self):
            found = getattr(self, field.name)
            if isinstance(found, Figure):
                yield field.name, found


@dataclass(frozen=True, slots=True)
class Plan:
    """The answers, by name, in the order in which a start meets them."""

    inputs: Inputs
    figures: dict[str, Figure]

    @property
    def never(self) -> bool:
        """Whether the job never catches up."""
        return self.figures["catch_up"].value is None


def make(inputs: Inputs) -> Plan:
    """The plan for one start."""
    return Plan(inputs, dict(_figures(inputs)))


# ------------------------------------------------------------------------------ the arithmetic


def load_s(inputs: Inputs) -> float:
    """Seconds in which the table is read."""
    return inputs.rows.number / inputs.load_rate.number


def hold_s(inputs: Inputs) -> float:
    """Seconds in which nothing leaves the job."""
    return inputs.start.number + load_s(inputs)


def capacity(inputs: Inputs) -> float:
    """Events a second of all subtasks, the gate being open."""
    return inputs.parallelism.number * inputs.join_rate.number


def waiting(inputs: Inputs, events_per_s: float | None = None) -> float:
    """Events that wait when the gate opens; at another rate than the inputs', if one is given."""
    rate = inputs.events_per_s.number if events_per_s is None else events_per_s
    return inputs.backlog.number + rate * hold_s(inputs)


def in_state(inputs: Inputs, events_per_s: float | None = None) -> float:
    """Those of the waiting events that stand in the join's state, at most."""
    every = waiting(inputs, events_per_s)
    if not inputs.paused:
        return every
    return min(every, inputs.slack.number * inputs.parallelism.number)


def catch_up_s(inputs: Inputs, events_per_s: float | None = None) -> float | None:
    """Seconds from the opening until nothing waits; None: never."""
    rate = inputs.events_per_s.number if events_per_s is None else events_per_s
    spare = capacity(inputs) - rate
    if spare <= 0:
        return None
    slower = inputs.join_rate.number / inputs.release_rate.number - 1
    # Released events may leave faster than others; what is left can not be less than nothing.
    return max(0.0, waiting(inputs, rate) + in_state(inputs, rate) * slower) / spare


def highest_rate(inputs: Inputs) -> float:
    """Events a second up to which the catch-up takes no longer than ``within``; 0: none."""
    low, high = 0.0, capacity(inputs)
    for _ in range(_STEPS):
        middle = (low + high) / 2
        took = catch_up_s(inputs, middle)
        if took is not None and took <= inputs.within.number:
            low = middle
        else:
            high = middle
    return low


def subtasks_needed(inputs: Inputs) -> int:
    """The smallest parallelism with which the catch-up takes no longer than ``within``."""

    def enough(subtasks: int) -> bool:
        wider = replace(inputs.parallelism, value=float(subtasks))
        took = catch_up_s(replace(inputs, parallelism=wider))
        return took is not None and took <= inputs.within.number

    # More subtasks are never slower: double until it is enough, then halve the difference.
    high = 1
    while not enough(high):
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def exposed_events(inputs: Inputs) -> float:
    """Events that a job without a gate joins before the table is loaded."""
    return min(waiting(inputs), capacity(inputs) * load_s(inputs))


# ------------------------------------------------------------------------------ the answers


def _figures(inputs: Inputs) -> Iterator[tuple[str, Figure]]:
    def computed(value: float | None, unit: str, *names: str) -> Figure:
        used = dict(inputs.items())
        assumes = tuple(name for name in names if used[name].origin is Origin.ASSUMED)
        return Figure(value, unit, Origin.COMPUTED, ", ".join(names), assumes)

    loads = ("rows", "load_rate")
    holds = (*loads, "start")
    waits = (*holds, "events_per_s", "backlog")
    joins = ("join_rate", "parallelism")
    states = (*waits, *(("slack", "parallelism") if inputs.paused else ()))
    catches = (*dict.fromkeys((*states, "release_rate", *joins)),)

    yield "load", computed(load_s(inputs), "s", *loads)
    if inputs.row_bytes:
        size = inputs.rows.number * inputs.row_bytes.number
        yield "table_bytes", computed(size, "bytes", "rows", "row_bytes")
    yield "hold", computed(hold_s(inputs), "s", *holds)
    yield "exposure", computed(load_s(inputs), "s", *loads)
    exposed = exposed_events(inputs)
    yield "exposed_events", computed(exposed, "events", *waits, *joins)
    every, held = waiting(inputs), in_state(inputs)
    volumes = {
        "waiting": (every, waits),
        "in_state": (held, states),
        "in_topic": (every - held, states),
    }
    for name, (events, names) in volumes.items():
        yield f"{name}_events", computed(events, "events", *names)
        if inputs.event_bytes:
            size = events * inputs.event_bytes.number
            yield f"{name}_bytes", computed(size, "bytes", *names, "event_bytes")
    yield "capacity", computed(capacity(inputs), "events/s", *joins)
    share = inputs.events_per_s.number / capacity(inputs)
    yield "load_share", computed(share, "of capacity", "events_per_s", *joins)
    took = catch_up_s(inputs)
    yield "catch_up", computed(took, "s", *catches)
    after = None if took is None else hold_s(inputs) + took
    yield "behind_for", computed(after, "s", *catches)
    # What the rate may be does not hang on what it is.
    others = tuple(name for name in catches if name != "events_per_s")
    highest = highest_rate(inputs)
    yield "highest_rate", computed(highest, "events/s", *others, "within")
    yield "highest_share", computed(highest / capacity(inputs), "of capacity", *others, "within")
    needed = float(subtasks_needed(inputs))
    apart = tuple(name for name in catches if name != "parallelism")
    yield "subtasks_needed", computed(needed, "subtasks", *apart, "within")
