"""Settings that the DataStream job keeps and the SQL variant cannot, or cannot yet."""

from __future__ import annotations

from collections.abc import Iterator

from jobs.settings import Settings
from jobs.settings.problems import ConfigErrors
from udfs.core.errors import ConfigError
from udfs.core.misses import OnMiss


def refuse(settings: Settings) -> None:
    """Raises ConfigErrors naming every setting that would not be kept."""
    problems = list(_problems(settings))
    if problems:
        raise ConfigErrors(problems)


def _problems(settings: Settings) -> Iterator[ConfigError]:
    miss, output, join = settings.miss, settings.output, settings.join
    if miss.grace_ms:
        yield ConfigError(
            "miss.grace_ms",
            miss.grace_ms,
            "SQL decides an event once, and has no join that waits for a row for a while; "
            "give 0 (--set miss.grace_ms=0)",
        )
    if miss.retry_after:
        yield ConfigError(
            "miss.retry_after",
            miss.retry_after,
            "the SQL variant does not read the retry topic again; give an empty text "
            "(--set miss.retry_after=) and leave the retries to jobs/enrich.py or to others",
        )
    if OnMiss(output.on_miss) is OnMiss.HOLD:
        yield ConfigError(
            "output.on_miss",
            output.on_miss,
            "SQL decides an event once, and has no join that waits for a row without an end; give "
            '"route" or "emit_null"',
        )
    if join.lookup_state != "keyed":
        yield ConfigError(
            "join.lookup_state",
            join.lookup_state,
            'SQL\'s join keeps the rows of each key in keyed state; give "keyed"',
        )
    if output.also:
        yield ConfigError(
            "output.also",
            ", ".join(output.also),
            "further outputs are queries of your own: add a file to sql/inserts",
        )
