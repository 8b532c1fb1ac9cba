"""The gate as a vectorised Python function: progress in, watermark out."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

import pandas as pd
from pyflink.table import DataTypes, FunctionContext
from pyflink.table.udf import ScalarFunction, UserDefinedScalarFunctionWrapper, udf

from udfs.core.errors import NoAnswerError, TargetError
from udfs.core.gate import CLOSED_MS, OPENED_SHORT_MS, Gate, StartKind
from udfs.core.identity import Identity
from udfs.core.stall import OnStall
from udfs.targets import TargetResolver
from udfs.watch import TableWatch

log = logging.getLogger(__name__)

_ASK_AGAIN_EVERY_S = 0.5
# In startup mode, where later looks only tell how far the table lags.
_LOOK_EVERY_S = 1.0
# Of a question once the attempt runs: the rows behind it wait meanwhile.
_PATIENCE_S = 3.0


@dataclass(frozen=True)
class GateRules:
    """What the gate is told by the settings and by the brokers at submission."""

    client: Mapping[str, str] = field(repr=False)
    """librdkafka configuration. Holds secrets."""
    topic: str
    isolation_level: str
    ticked_partitions: int
    """Ticks tell the progress of the partitions below this number."""
    continuous: bool = False
    """Whether the time of completeness is for events (``consistency = "continuous"``) or only for
    the eye on the table's lag."""
    on_stall: OnStall = OnStall.WAIT
    stall_after_ms: int = 60_000
    max_table_lag_ms: int = 60_000
    tick_interval_ms: int = 1_000
    max_clock_skew_ms: int = 0
    """By how much the clocks of two TaskManagers may differ."""
    identity: Identity | None = None
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    """Topic to topic id at submission, for stream and table."""
    tombstones_kept_ms: int | None = None
    """The table topic's delete.retention.ms; None where deletions are not removed."""
    fail_on_expired_tombstones: bool = False

    @property
    def look_every_s(self) -> float:
        """How often the brokers are asked for the log ends, in seconds."""
        tick_s = self.tick_interval_ms / 1000
        return tick_s if self.continuous else max(tick_s, _LOOK_EVERY_S)


class TableGate(ScalarFunction):
    """Says up to when the table is complete.

    Called with five columns: ``partition`` (INT), ``reached`` (BIGINT, the running maximum of the
    offsets of that partition, null while nothing is known), ``foreign`` (STRING, the stamp of the
    state when it is not ours, else null), ``silent_s`` (BIGINT, seconds since the row before of
    that partition, null when there was none, in this attempt or before) and ``tick`` (BOOLEAN,
    whether the row is a tick and no record). Returns BIGINT, the watermark in epoch milliseconds
    that may follow each row: CLOSED_MS, or on the last row of a batch the time until which the
    table is complete.

    The targets are resolved in ``open``, which Flink calls on every attempt, so that none is older
    than the attempt. Raises TargetError, which fails the attempt, when they cannot be resolved,
    when the state belongs to something else, when the log end moved back, or when the table stalls
    and the policy says so.
    """

    def __init__(self, rules: GateRules) -> None:
        self._rules = rules

    def open(self, function_context: FunctionContext) -> None:
        rules = self._rules
        self._asked = self._looked = time.monotonic()
        self._checked: set[int] = set()
        self._receding: set[int] = set()
        self._heard: set[int] = set()
        # Partition to the seconds between its last row before this attempt and its first one now.
        self._silent: dict[int, int] = {}
        self._resolver = TargetResolver(rules.client, rules.topic, rules.isolation_level)
        self._require_same_topics()
        asked_ms = self._clock_ms()
        targets = self._resolver.resolve()
        self._gate = Gate(targets, range(rules.ticked_partitions), asked_ms)
        self._watch = TableWatch(rules.topic, self._gate, self._resolver)
        self._resolver.patience_s = _PATIENCE_S
        log.info("gate of %s: targets of this attempt %s", rules.topic, targets)
        unticked = [p for p in targets if p >= rules.ticked_partitions]
        if unticked:
            log.warning(
                "gate of %s: no tick speaks for partitions %s, which were added after the job was "
                "submitted: each counts with its next row only; submit the job again",
                rules.topic,
                unticked,
            )

    def close(self) -> None:
        # Flink also closes a function whose open failed halfway.
        if hasattr(self, "_resolver"):
            self._resolver.close()

    def eval(
        self,
        partition: pd.Series,
        reached: pd.Series,
        foreign: pd.Series,
        silent_s: pd.Series,
        tick: pd.Series,
    ) -> pd.Series:
        self._require_own_state(foreign)
        if not self._gate.heard_all:
            self._hear(partition, reached, silent_s, tick)
        for p, offset in reached.groupby(partition).max().items():
            self._gate.reach(int(p), int(offset) if pd.notna(offset) else None)
        watermarks = pd.Series(CLOSED_MS, index=range(len(partition)), dtype="int64")
        try:
            self._refuse_moved_back_end()
            self._ask()
            self._look()
        except NoAnswerError as error:
            # The table's source rides it out, and so do we: the time of completeness stands still.
            self._watch.no_answer(error)
        else:
            # Only behind the last row of the batch have all rows of the batch passed.
            watermarks.iloc[-1] = self._gate.complete_until_ms
        if self._opens_short():
            watermarks.iloc[-1] = max(watermarks.iloc[-1], OPENED_SHORT_MS)
        return watermarks

    # ------------------------------------------------------------------------- what is restored

    def _require_same_topics(self) -> None:
        for topic, submitted in self._rules.topic_ids.items():
            now = self._resolver.topic(topic).topic_id
            if now != submitted:
                raise TargetError(
                    f"Topic {topic} was deleted and created again: its id is {now}, and was "
                    f"{submitted} when the job was submitted.",
                    "The state belongs to the topic that is gone. Submit the job again without a "
                    "savepoint to load the table anew.",
                )

    def _require_own_state(self, foreign: pd.Series) -> None:
        identity = self._rules.identity
        if identity is None or not foreign.notna().any():
            return
        differences = identity.differences(str(foreign.dropna().iloc[0]))
        raise TargetError(
            f"The restored state belongs to another {'; another '.join(differences)}. The table "
            f"topic of this job is {self._rules.topic}.",
            "Start from a savepoint of this job, or without one to load the table anew.",
        )

    def _hear(
        self, partition: pd.Series, reached: pd.Series, silent_s: pd.Series, tick: pd.Series
    ) -> None:
        first = ~partition.duplicated()
        rows = zip(partition[first], reached[first], silent_s[first], tick[first], strict=True)
        for p, offset, silent, is_tick in rows:
            if p in self._heard:
                continue
            self._heard.add(p)
            if pd.notna(silent):
                self._silent[p] = int(silent)
            # A tick tells the progress that was restored, a row has moved it on.
            restored = offset if is_tick else offset - 1
            self._gate.reach(int(p), int(restored) if pd.notna(restored) else None)
        if self._gate.heard_all:
            kind, left = self._gate.started(self._silent)
            of = "" if kind is StartKind.WARM_QUIET else f", {left} offsets to read"
            log.info("gate of %s: %s%s", self._rules.topic, kind, of)
            self._warn_of_lost_deletions()

    def _warn_of_lost_deletions(self) -> None:
        kept_ms = self._rules.tombstones_kept_ms
        silent_s = max(self._silent.values(), default=0)
        if kept_ms is None or silent_s * 1000 <= kept_ms:
            return
        what = (
            f"{self._rules.topic}: the state was last kept up to date {silent_s} s ago, and the "
            f"topic keeps deletions for {kept_ms // 1000} s (delete.retention.ms): rows that were "
            "deleted meanwhile may still be in the state."
        )
        remedy = "Start without a savepoint to load the table anew, or accept such rows"
        if self._rules.fail_on_expired_tombstones:
            raise TargetError(what, f'{remedy} with gate.on_expired_tombstones = "warn".')
        log.warning("gate of %s: %s %s.", self._rules.topic, what, remedy)

    # ------------------------------------------------------------------------- what is asked

    def _refuse_moved_back_end(self) -> None:
        # Progress beyond the end of this start is usual for a table that is being written, and is
        # looked into once a partition and attempt.
        gate = self._gate
        suspects = [p for p in self._heard if p not in self._checked and gate.overtaken(p)]
        if not suspects:
            return
        ends = self._resolver.log_ends(suspects)
        self._checked.update(suspects)
        for p in suspects:
            if gate.reached(p) >= ends[p]:
                raise self._receded(p, ends[p])

    def _receded(self, partition: int, end: int) -> TargetError:
        return TargetError(
            f"{self._rules.topic}[{partition}] ends at offset {end}, but has been read up to "
            f"offset {self._gate.reached(partition)}: the topic was truncated, or deleted and "
            "recreated.",
            "The state no longer belongs to this topic. Start without a savepoint to load the "
            "table anew.",
        )

    def _ask(self) -> None:
        """Ask for targets that are not known yet."""
        every = self._rules.look_every_s if self._gate.is_open else _ASK_AGAIN_EVERY_S
        now = time.monotonic()
        waiting = self._gate.waiting
        if not waiting or now - self._asked < every:
            return
        self._asked = now
        answers = self._resolver.resolve_again(waiting)
        known = {p: target for p, target in answers.items() if not target.waiting}
        if known and not self._gate.is_open:
            log.info("gate of %s: transactions ended, targets %s", self._rules.topic, known)
        self._gate.answer(known)

    def _look(self) -> None:
        """Look at the log ends again, to move the time of completeness on."""
        now = time.monotonic()
        # Ticks are not punctual: one that comes a little early must not leave it to the next.
        early_s = self._rules.tick_interval_ms / 10_000
        if not self._gate.wants_look or now - self._looked < self._rules.look_every_s - early_s:
            return
        # A target that this look leaves unknown is mostly reached by the next one.
        self._looked = self._asked = now
        # Taken first: what was written before it is below the ends.
        asked_ms = self._clock_ms()
        topic = self._resolver.topic()
        if topic.topic_id != self._rules.topic_ids.get(self._rules.topic, topic.topic_id):
            self._require_same_topics()
        ends = self._resolver.log_ends(topic.partitions)
        receding = {p for p, end in ends.items() if end <= self._gate.reached(p)}
        for p in sorted(receding & self._receding):
            raise self._receded(p, ends[p])
        # Believed when it is said twice: a new leader may be behind for a moment.
        self._receding = receding
        if not receding:
            self._gate.look(asked_ms, ends)

    # ------------------------------------------------------------------------- what is said

    def _opens_short(self) -> bool:
        """Whether the policy opens a gate whose table stalls. Raises TargetError when it fails."""
        rules = self._rules
        stalled = self._watch.report(self._clock_ms(), rules.stall_after_ms, rules.max_table_lag_ms)
        if not stalled:
            return False
        if rules.on_stall is OnStall.FAIL and (rules.continuous or not self._gate.is_open):
            raise TargetError(
                f"The table made no progress for {rules.stall_after_ms} ms, and gate.on_stall is "
                f'"fail": {stalled}.',
                "The restart strategy tries again, with new targets.",
            )
        return rules.on_stall is OnStall.OPEN

    def _clock_ms(self) -> int:
        return time.time_ns() // 1_000_000 - self._rules.max_clock_skew_ms


def gate_function(rules: GateRules) -> UserDefinedScalarFunctionWrapper:
    """The gate, ready for ``create_temporary_function``."""
    return udf(
        TableGate(rules), result_type=DataTypes.BIGINT(), func_type="pandas", name="table_gate"
    )
