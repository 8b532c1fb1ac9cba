"""What the samples of a hold and of the catch-up after it say. Values in, values out.

Times are seconds of a monotonic clock, rates are events a second.
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

# A lag is back when it stays for this long: at a checkpoint it dips and jumps.
_STAYS_S = 2.0
# How far the written rate may be off.
_RATE_TOLERANCE = 0.02
_PERCENTILE = 95


class Sample(NamedTuple):
    """How many events had been written, and how many had left the job, since all had left it."""

    at_s: float
    written: int
    enriched: int

    @property
    def lag(self) -> int:
        """Events that are in the topic or in the job, held ones too."""
        return self.written - self.enriched


@dataclass(frozen=True)
class Figures:
    """What one load showed.

    ``hold_s`` is from the last event before the hold to the first one after it, ``catch_up_s``
    from that one until the lag was back at ``level`` (the 95th percentile before the hold); None:
    not while it was watched. ``held`` events stood in state at the opening and were released with
    ``release_rate``; ``topic_rate`` is that of the events after them, until the lag was back.
    """

    load: float
    wanted_rate: float
    written_rate: float
    level: float
    hold_s: float
    waiting: int
    held: int
    release_rate: float
    topic_rate: float
    catch_up_s: float | None
    simple_s: float
    corrected_s: float | None
    writer_cores: float

    @property
    def ratio(self) -> float | None:
        """Measured to the simple formula."""
        return None if self.catch_up_s is None else self.catch_up_s / self.simple_s

    @property
    def corrected_ratio(self) -> float | None:
        """Measured to the corrected formula."""
        if self.catch_up_s is None or self.corrected_s is None:
            return None
        return self.catch_up_s / self.corrected_s

    def shown(self) -> dict[str, Any]:
        """For the JSON file."""
        told = asdict(self) | {"ratio": self.ratio, "corrected_ratio": self.corrected_ratio}
        return {k: round(v, 3) if isinstance(v, float) else v for k, v in told.items()}


# ------------------------------------------------------------------------------ formulas


def simple_s(hold_s: float, load: float) -> float:
    """Seconds of catch-up after a hold, by a capacity that is the same at all times."""
    return hold_s * load / (1 - load)


def corrected_s(
    hold_s: float, rate: float, held: int, release_rate: float, topic_rate: float
) -> float | None:
    """The same with the rates at which held events and others leave; None: never.

    As `ops.plan.model` has it.
    """
    spare = topic_rate - rate
    if spare <= 0:
        return None
    return (rate * hold_s + held * (topic_rate / release_rate - 1)) / spare


# ------------------------------------------------------------------------------ samples


def rate(samples: Sequence[Sample], name: str) -> float:
    """Events a second from the first to the last sample, of ``written`` or ``enriched``."""
    first, last = samples[0], samples[-1]
    events: int = getattr(last, name) - getattr(first, name)
    return events / (last.at_s - first.at_s)


def between(samples: Iterable[Sample], from_s: float, to_s: float) -> list[Sample]:
    """Those in a span of time, both ends counted."""
    return [sample for sample in samples if from_s <= sample.at_s <= to_s]


def level(before: Sequence[Sample]) -> float:
    """What the lag hardly ever exceeded."""
    return statistics.quantiles([sample.lag for sample in before], n=100)[_PERCENTILE - 1]


def standstill(samples: Sequence[Sample]) -> tuple[Sample, Sample]:
    """The longest time in which nothing left: the sample that it began at, the first after it."""
    begin = samples[0]
    longest = (begin, begin)
    for sample in samples[1:]:
        if sample.enriched == begin.enriched:
            continue
        if sample.at_s - begin.at_s > longest[1].at_s - longest[0].at_s:
            longest = (begin, sample)
        begin = sample
    return longest


def reached(samples: Sequence[Sample], enriched: int) -> float | None:
    """When so many events had left the job, between two samples by their slope; None: not yet."""
    for before, after in itertools.pairwise(samples):
        if before.enriched < enriched <= after.enriched:
            share = (enriched - before.enriched) / (after.enriched - before.enriched)
            return before.at_s + share * (after.at_s - before.at_s)
    return None


def back(samples: Sequence[Sample], lag: float) -> Sample | None:
    """The first sample with a lag of at most ``lag`` that stays there, half of the time at least.

    None when there is none, or none that was watched for long enough.
    """
    for number, sample in enumerate(samples):
        if sample.lag > lag:
            continue
        next_ones = between(samples[number:], sample.at_s, sample.at_s + _STAYS_S)
        if samples[-1].at_s < sample.at_s + _STAYS_S:
            return None
        if statistics.median(found.lag for found in next_ones) <= lag:
            return sample
    return None


def figures(
    load: float,
    wanted_rate: float,
    before: Sequence[Sample],
    after: Sequence[Sample],
    held: int,
    writer_cores: float,
) -> Figures:
    """What one load showed.

    Args:
        load: share of the capacity.
        wanted_rate: events a second that should have been written.
        before: samples of the steady state before the hold.
        after: samples from there on, over the hold and the catch-up.
        held: events that the job had put on hold at the opening.
        writer_cores: cores that the writing process took.
    """
    begin, opened = standstill(after)
    hold_s = opened.at_s - begin.at_s
    later = [sample for sample in after if sample.at_s >= opened.at_s]
    wanted = level(before)
    end = back(later, wanted)
    last = end or later[-1]
    # Released events leave first. The gate opened somewhere after the last sample that saw none.
    shut = max(sample.at_s for sample in after if sample.enriched == begin.enriched)
    released = reached(after, begin.enriched + held) if held else opened.at_s
    at_release = last.at_s if released is None else min(released, last.at_s)
    release_rate = held / (at_release - shut) if held else 0.0
    rest = between(later, at_release, last.at_s)
    topic_rate = rate(rest, "enriched") if len(rest) > 1 else release_rate
    written_rate = rate([*before, *between(after, 0, last.at_s)], "written")
    return Figures(
        load=load,
        wanted_rate=wanted_rate,
        written_rate=written_rate,
        level=wanted,
        hold_s=hold_s,
        waiting=opened.lag,
        held=held,
        release_rate=release_rate or topic_rate,
        topic_rate=topic_rate,
        catch_up_s=None if end is None else end.at_s - opened.at_s,
        simple_s=simple_s(hold_s, load),
        corrected_s=corrected_s(hold_s, written_rate, held, release_rate or topic_rate, topic_rate),
        writer_cores=writer_cores,
    )


def judge(runs: Iterable[Figures]) -> list[str]:
    """What spoils the measurement."""
    wrong = []
    for run in runs:
        if abs(run.written_rate / run.wanted_rate - 1) > _RATE_TOLERANCE:
            wrong.append(
                f"load {run.load:.0%}: {run.written_rate:.0f} events/s were written, "
                f"{run.wanted_rate:.0f} wanted"
            )
        if run.catch_up_s is None:
            wrong.append(f"load {run.load:.0%}: the lag was not back while it was watched")
    return wrong
