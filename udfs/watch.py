"""Says in the log how the table is doing, and notices that it is not getting anywhere."""

from __future__ import annotations

import logging
import time
from datetime import UTC, datetime

from udfs.core.errors import NoAnswerError, TargetError
from udfs.core.gate import Gate
from udfs.core.stall import PartitionNow, moved_back, short_partition
from udfs.targets import TargetResolver

log = logging.getLogger(__name__)

_REPORT_EVERY_S = 10.0
# A partition's line has some 200 characters, and a topic may have hundreds of them.
_MOST_PARTITIONS = 20


class TableWatch:
    """Watches one attempt's gate. ``report`` is called with every batch, and cheap when idle."""

    def __init__(self, topic: str, gate: Gate, resolver: TargetResolver) -> None:
        self._topic = topic
        self._gate = gate
        self._resolver = resolver
        self._began = self._reported = self._moved = self._stall_told = time.monotonic()
        self._progress: object = None
        self._open_told = False
        self._opened_ms = 0
        self._stale_told = False
        self._stalled = ""

    def no_answer(self, error: NoAnswerError) -> None:
        """Take note that the brokers did not answer a question of this moment."""
        if self._due():
            log.warning("gate of %s: %s", self._topic, error)

    def report(self, now_ms: int, stall_after_ms: int, max_table_lag_ms: int) -> str:
        """Log what is worth it; return why the table stalls, or "" while it does not.

        Raises TargetError when a log end moved back below its target: that is never reached.
        """
        now = time.monotonic()
        progress = (self._gate.complete_until_ms, self._gate.missing(), self._gate.heard_all)
        # An open gate without a look that is waited for has nothing to get to.
        if progress != self._progress or (self._gate.is_open and not self._gate.missing()):
            self._progress, self._moved, self._stalled = progress, now, ""
        if not self._gate.is_open:
            self._report_shut()
        else:
            self._report_open(now_ms, max_table_lag_ms)
        stalled_s = now - self._moved
        if stalled_s * 1000 >= stall_after_ms and (
            not self._stalled or (now - self._stall_told) * 1000 >= stall_after_ms
        ):
            self._stall_told = now
            self._stalled = "; ".join(self._reasons()) or "the table's side sends no progress"
            log.warning(
                "gate of %s: stalled, no progress for %.0f s: %s",
                self._topic,
                stalled_s,
                self._stalled,
            )
        return self._stalled

    def _report_shut(self) -> None:
        if not self._due():
            return
        self._refuse_lost_targets()
        log.info(
            "gate of %s: shut, %.1f %% loaded, offsets left %s, waiting for a transaction %s",
            self._topic,
            self._gate.loaded_basis_points() / 100,
            self._gate.missing(),
            list(self._gate.waiting),
        )

    def _report_open(self, now_ms: int, max_table_lag_ms: int) -> None:
        until_ms = self._gate.complete_until_ms
        if not self._open_told:
            self._open_told = True
            self._opened_ms = now_ms
            took_ms = (time.monotonic() - self._began) * 1000
            log.info("gate of %s: open after %d ms", self._topic, took_ms)
        lag_ms = now_ms - until_ms
        # A load may have taken hours; how far the table lags is only known from then on.
        if now_ms - max(until_ms, self._opened_ms) > max_table_lag_ms:
            if self._stale_told and not self._due():
                return
            self._stale_told = True
            self._reported = time.monotonic()
            log.warning(
                "gate of %s: stale, complete until %s only, %.1f s ago: misses are STALE_TABLE; %s",
                self._topic,
                datetime.fromtimestamp(until_ms / 1000, UTC).isoformat(timespec="milliseconds"),
                lag_ms / 1000,
                "; ".join(self._reasons()) or "the brokers did not say where its log ends",
            )
        elif self._stale_told:
            self._stale_told = False
            log.info("gate of %s: no longer stale", self._topic)

    def _due(self) -> bool:
        now = time.monotonic()
        if now - self._reported < _REPORT_EVERY_S:
            return False
        self._reported = now
        return True

    def _refuse_lost_targets(self) -> None:
        """Raise TargetError for a target that the log does not hold any more."""
        for p, facts in self._ask(list(self._gate.missing())).items():
            target, reached = self._gate.target(p), self._gate.reached(p)
            if facts.end is not None and moved_back(target, reached, facts.end):
                raise TargetError(
                    short_partition(self._topic, p, target, reached, facts) + ".",
                    "The next attempt takes new targets; a state that has read further is refused.",
                )

    def _reasons(self) -> list[str]:
        short = list(self._gate.missing())
        lines = [
            short_partition(self._topic, p, self._gate.target(p), self._gate.reached(p), facts)
            for p, facts in self._ask(short[:_MOST_PARTITIONS]).items()
        ]
        more = len(short) - _MOST_PARTITIONS
        return [*lines, f"and {more} more partitions"] if more > 0 else lines

    def _ask(self, partitions: list[int]) -> dict[int, PartitionNow]:
        if not partitions:
            return {}
        try:
            leaderless = set(self._resolver.topic().leaderless)
            led = [p for p in partitions if p not in leaderless]
            ends = self._resolver.log_ends(led)
            stable = self._resolver.stable_ends(led)
        except NoAnswerError:
            return {p: PartitionNow(None, None) for p in partitions}
        return {p: PartitionNow(ends.get(p), stable.get(p), p in leaderless) for p in partitions}
