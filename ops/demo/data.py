"""The demo's records: customers and their tiers, and the orders that look them up.

Pure and seeded: the same `Plan` and clock give the same bytes. The layout of the table's log is
what the story needs:

    before the first start    rows of all customers, oldest first
                              updates and tombstones, shuffled
    while the jobs are down   new customers, updates and tombstones, shuffled

so the keys that a join without a gate misses most are the newest, as in real logs.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

TIERS = ("bronze", "silver", "gold", "platinum")
_SEGMENTS = ("retail", "wholesale", "education", "public sector", "hospitality")
_COUNTRIES = ("AT", "BR", "CA", "DE", "ES", "FI", "IN", "JP", "KE", "MX", "SE", "US")
_GIVEN = ("Ada", "Björn", "Chloé", "Dmitri", "Eilís", "Fatima", "Göran", "Hana", "Iñigo", "Jun")
_FAMILY = (
    "Ahlström",
    "Brown",
    "Castro",
    "Dubois",
    "Eriksen",
    "Fischer",
    "García",
    "Hara",
    "Ivanov",
)
_NOTES = (
    "prefers delivery before noon, ring twice",
    "invoices go to the head office",
    "asked for paper receipts",
    "ships to a parcel locker near the station",
)

# With fewer, some of the shares below come out empty.
FEWEST = 1_000

_DAY_MS = 86_400_000
_TABLE_SPAN_MS = 30 * _DAY_MS
# Twice the table's span: about half of the orders are older than every row, and must hit all the
# same, because the gate goes by position in the log and not by time.
_STREAM_SPAN_MS = 60 * _DAY_MS

Headers = tuple[tuple[str, bytes | None], ...]


class Draft(NamedTuple):
    """A record before it is written. ``value`` is None for a tombstone; time is in epoch ms."""

    key: bytes
    value: bytes | None
    headers: Headers
    timestamp_ms: int


@dataclass(frozen=True)
class Plan:
    """How much of everything. The counts below follow from ``rows`` and ``events``."""

    rows: int = 200_000
    events: int = 200_000
    seed: int = 7

    def __post_init__(self) -> None:
        if min(self.rows, self.events) < FEWEST:
            raise ValueError(
                f"the story needs at least {FEWEST} rows and events, got rows={self.rows}, "
                f"events={self.events}"
            )

    @property
    def updates(self) -> int:
        """Customers whose row is replaced at the end of the log."""
        return self.rows // 10

    @property
    def deletes(self) -> int:
        """Customers deleted at the end of the log."""
        return self.rows // 500

    @property
    def returns(self) -> int:
        """How many of the deleted ones are written again afterwards."""
        return self.deletes // 10

    @property
    def late_rows(self) -> int:
        """New customers written while the jobs are down; as many existing ones change tier."""
        return self.rows // 40

    @property
    def late_deletes(self) -> int:
        """Customers deleted while the jobs are down."""
        return self.rows // 2_000 + 1

    @property
    def late_events(self) -> int:
        """Orders written while the jobs are down."""
        return self.events // 8

    @property
    def unreadable(self) -> int:
        """Orders per phase whose value is not JSON, and as many without a customer."""
        return 20


class Mix(NamedTuple):
    """Which customers a phase's orders ask for: (share in percent, customer numbers) each."""

    shares: tuple[tuple[int, list[int]], ...]


# Numbers of customers that no row ever had start here.
_NEVER = 9_000_000


@dataclass
class Story:
    """All records of one run. Call the four methods in the order in which they stand.

    ``now_ms`` is the time that the records end at: data is pure, so the clock is handed in.
    """

    plan: Plan
    now_ms: int
    _revision: dict[int, int] = field(default_factory=dict)
    _tier: dict[int, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        plan, rng = self.plan, _rng(self.plan, "customers")
        changed = rng.sample(range(plan.rows), plan.updates + plan.deletes)
        self._updated = changed[: plan.updates]
        self._deleted = changed[plan.updates :]
        self._returned = self._deleted[: plan.returns]
        gone = set(self._deleted[plan.returns :])
        self._gone = sorted(gone)
        self._late = list(range(plan.rows, plan.rows + plan.late_rows))
        alive = [n for n in rng.sample(range(plan.rows), 2 * plan.late_rows) if n not in gone]
        self._late_deleted = alive[: plan.late_deletes]
        self._late_updated = alive[plan.late_deletes :][: plan.late_rows]

    def table_before(self) -> Iterator[Draft]:
        """Every customer once, then updates and tombstones: the log before the first start."""
        plan, rng = self.plan, _rng(self.plan, "table")
        start = self.now_ms - _TABLE_SPAN_MS
        tail = [(n, False) for n in self._updated] + [(n, True) for n in self._deleted]
        rng.shuffle(tail)
        tail += [(n, False) for n in self._returned]
        total = plan.rows + len(tail)
        for n in range(plan.rows):
            yield self._row(rng, n, start + _TABLE_SPAN_MS * n // total)
        for i, (n, delete) in enumerate(tail, start=plan.rows):
            at = start + _TABLE_SPAN_MS * i // total
            yield _tombstone(n, at) if delete else self._row(rng, n, at)

    def stream_before(self) -> Iterator[Draft]:
        """The orders that wait when the jobs start for the first time."""
        plan = self.plan
        newest = list(range(plan.rows - plan.rows // 10, plan.rows))
        never = list(range(_NEVER, _NEVER + 500))
        mix = Mix(
            (
                (25, newest),
                (15, self._updated),
                (1, self._gone),
                (1, self._returned or self._gone),
                (1, never),
                (57, list(range(plan.rows))),
            )
        )
        yield from self._orders(1, plan.events, mix)

    def table_while_down(self) -> Iterator[Draft]:
        """New customers, tier changes and deletions that nobody reads as they are written."""
        rng = _rng(self.plan, "late table")
        tail = [(n, False) for n in self._late + self._late_updated]
        tail += [(n, True) for n in self._late_deleted]
        rng.shuffle(tail)
        for n, delete in tail:
            yield _tombstone(n, self.now_ms) if delete else self._row(rng, n, self.now_ms)

    def stream_while_down(self) -> Iterator[Draft]:
        """Orders that ask for what changed while the jobs were down, and for old customers too."""
        plan = self.plan
        never = list(range(_NEVER, _NEVER + 500))
        mix = Mix(
            (
                (35, self._late),
                (30, self._late_updated),
                (3, self._late_deleted),
                (2, self._gone),
                (1, never),
                (29, list(range(plan.rows))),
            )
        )
        yield from self._orders(2, plan.late_events, mix)

    def _row(self, rng: random.Random, n: int, at: int) -> Draft:
        revision = self._revision[n] = self._revision.get(n, 0) + 1
        others = [tier for tier in TIERS if tier != self._tier.get(n)]
        tier = self._tier[n] = rng.choice(others)
        row = {
            "customer_id": customer_id(n),
            "name": f"{rng.choice(_GIVEN)} {rng.choice(_FAMILY)}",
            "tier": tier,
            # The tier alone cannot tell an old row from a new one: the check needs this.
            "revision": revision,
            "segment": rng.choice(_SEGMENTS),
            "country": rng.choice(_COUNTRIES),
            "credit_limit": rng.randrange(0, 20_000, 50),
            "note": rng.choice(_NOTES),
        }
        value = json.dumps(row, ensure_ascii=False).encode()
        return Draft(customer_id(n).encode(), value, (), at)

    def _orders(self, phase: int, count: int, mix: Mix) -> Iterator[Draft]:
        rng = _rng(self.plan, f"stream {phase}")
        asked: list[int] = []
        for percent, customers in mix.shares:
            asked += rng.choices(customers, k=count * percent // 100)
        asked += rng.choices(mix.shares[0][1], k=count - len(asked))
        rng.shuffle(asked)
        odd = rng.sample(range(count), 2 * self.plan.unreadable)
        broken, keyless = set(odd[: self.plan.unreadable]), set(odd[self.plan.unreadable :])
        for i, n in enumerate(asked):
            order_id = f"o{phase}-{i:07d}"
            headers = (
                ("trace-id", _trace_id(phase, i).encode()),
                ("channel", rng.choice((b"web", b"app", b"phone"))),
            )
            # Random, so event time says nothing about the order in the log.
            at = self.now_ms - rng.randrange(_STREAM_SPAN_MS)
            order: dict[str, object] = {
                "order_id": order_id,
                "customer_id": None if i in keyless else customer_id(n),
                "amount": rng.randrange(100, 100_000) / 100,
                "currency": "EUR",
                "placed_ns": at * 1_000_000 + i % 1_000_000,
                "items": [{"sku": f"sku-{rng.randrange(5_000)}", "count": rng.randrange(1, 5)}],
                "gift_note": "für dich ♥" if i % 50 == 0 else None,
            }
            if i in keyless and i % 2:
                del order["customer_id"]
            value = json.dumps(order, ensure_ascii=False).encode()
            if i in broken:
                # Cut short, or not even UTF-8.
                value = value[: len(value) // 2] if i % 2 else b"\xff\xfe" + value
            yield Draft(order_id.encode(), value, headers, at)


def customer_id(n: int) -> str:
    """The key of customer number ``n``, as text."""
    return f"c{n:07d}"


def _rng(plan: Plan, part: str) -> random.Random:
    """One generator per part, so that a change of one part leaves the others as they were."""
    return random.Random(f"{plan.seed} {part}")  # noqa: S311  made-up data guards no secret


def _tombstone(n: int, at: int) -> Draft:
    return Draft(customer_id(n).encode(), None, (), at)


def _trace_id(phase: int, i: int) -> str:
    # An odd multiplier is a bijection on 64 bits: looks random, and never repeats.
    return f"{((phase << 40) + i) * 0x9E3779B97F4A7C15 % (1 << 64):016x}"
