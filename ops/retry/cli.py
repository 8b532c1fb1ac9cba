"""`tablegate retry list` and `replay`: what became of events without a row, and a way back."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from confluent_kafka import Message
from rich.console import Console

from jobs.clients import librdkafka_config
from jobs.preflight.admin import Admin
from jobs.settings import Settings, load
from ops.retry import ledger, screen, topics
from ops.retry.errors import Exit, RetryError
from ops.retry.filters import Fate, Filter, Judge, parse_filter
from ops.retry.letters import Letter
from ops.retry.marks import Marks
from ops.retry.replay import BATCH, MOST, Destination, Sender
from ops.retry.scan import read_letters, scan
from ops.retry.summary import Tally, newest
from ops.retry.topics import Topic
from udfs.core.errors import ConfigError, TablegateError

Config = Annotated[Path, typer.Option(help="The job's TOML file.")]
Overrides = Annotated[
    list[str] | None, typer.Option("--set", help="dotted.key=value; may be repeated.")
]
Verdicts = Annotated[
    list[str] | None,
    typer.Option("--verdict", help="Only this verdict; '?': no verdict of ours. Repeatable."),
]
Since = Annotated[
    str,
    typer.Option(
        help="Only events that the job first saw at or after this time: 2026-11-29T18:00 (UTC), or "
        '"2h", "30 min" ago. Not the time at which they died, which is written nowhere.'
    ),
]
Until = Annotated[str, typer.Option(help="Only events that the job first saw before this time.")]
At = Annotated[
    list[str] | None,
    typer.Option(help="Only the record there, e.g. 'orders.dead[0]@12'. Repeatable."),
]
Key = Annotated[str | None, typer.Option(help="Only records with this record key.")]
Source = Annotated[
    list[str] | None, typer.Option("--source", help="Only records from this topic. Repeatable.")
]

Batches = Iterable[list[tuple[Letter, Message]]]

_out = Console(highlight=False, soft_wrap=True)
_SHOWN = 20


class From(StrEnum):
    """Which topic is listed."""

    DEAD = "dead"
    RETRY = "retry"


class To(StrEnum):
    """Where letters are sent."""

    STREAM = "stream"
    RETRY = "retry"


def register(app: typer.Typer) -> None:
    """Add the commands to ``app``."""
    group = typer.Typer(
        help="List what found no row or could not be read, and send it back to be joined again.",
        no_args_is_help=True,
    )
    group.command("list")(list_letters)
    group.command("replay")(replay)
    app.add_typer(group, name="retry")


def list_letters(
    *,
    config: Config,
    overrides: Overrides = None,
    from_: Annotated[
        From, typer.Option("--from", help="The dead letters, or all that the retry topic holds.")
    ] = From.DEAD,
    verdict: Verdicts = None,
    since: Since = "",
    until: Until = "",
    at: At = None,
    key: Key = None,
    source: Source = None,
    limit: Annotated[
        int, typer.Option(min=0, help="Show so many, those seen last; 0: all, as they stand.")
    ] = _SHOWN,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List dead letters, or the retry topic, with a count by verdict and source topic.

    Exit codes: 0 done, 1 the brokers failed, 2 refused. The retry topic is a log: what the job has
    read from it still stands there.
    """
    with _exits(), _connected(config, overrides) as (settings, admin, client):
        output = settings.output
        name = output.dead if from_ is From.DEAD else output.retry
        chosen = _filter(name, verdict, since, until, at, key, source)
        topic = topics.require(admin, name, f"output.{from_}")
        spans = topic.spans(chosen.at)
        marks = ledger.read(admin, client, topic) if from_ is From.DEAD else Marks()
        tally, notes = Tally(), list(_notes(topic))
        # Lines that pass by and a bar below them do not go together.
        bar = limit > 0 or not sys.stdout.isatty()
        with (
            screen.progress(f"reading {name}", _size(spans), shown=bar) as advance,
            closing(scan(admin, client, name, spans)) as reads,
        ):
            found = _meant(read_letters(reads, marks, advance), chosen, tally)
            letters: Iterable[Letter] = newest(found, limit) if limit else found
            if as_json:
                screen.write_json(sys.stdout, name, letters, tally, notes)
                return
            _print_letters(name, letters)
        _print_counts(
            f"Records found in {name}: {tally.total:,}", tally, notes, replayed=from_ is From.DEAD
        )


def replay(
    *,
    config: Config,
    overrides: Overrides = None,
    verdict: Verdicts = None,
    since: Since = "",
    until: Until = "",
    at: At = None,
    key: Key = None,
    source: Source = None,
    to: Annotated[
        To | None,
        typer.Option(help="By default the retry topic if the job reads it, else the stream."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be sent, and send nothing.")
    ] = False,
    again: Annotated[
        bool, typer.Option("--again", help="Also what a replay has sent before.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    limit: Annotated[
        int, typer.Option(min=1, help="Show so many of those that would be sent.")
    ] = _SHOWN,
    batch: Annotated[
        int, typer.Option(min=1, max=MOST, help="Letters in one transaction.")
    ] = BATCH,
) -> None:
    """Send dead letters back to be joined again, each once.

    A replay that was interrupted is run again: it goes on behind the last whole batch. Rows of the
    table are never sent. Exit codes: 0 done, 1 the brokers failed, 2 refused, 130 interrupted.
    """
    with _exits(), _connected(config, overrides) as (settings, admin, client):
        name = settings.output.dead
        chosen = _filter(name, verdict, since, until, at, key, source)
        if not (dry_run or yes or sys.stdin.isatty()):
            raise RetryError(
                "Nothing was sent: no terminal is there to confirm it.",
                "Look with --dry-run, then give --yes.",
            )
        dead = topics.require(admin, name, "output.dead")
        destination = _destination(admin, settings, to)
        home = frozenset({settings.stream.topic, settings.output.retry})
        judge = Judge(chosen, settings.table.topic, home, again)
        # Resolved once: what is sent is what was shown, and nothing that came since.
        spans = dead.spans(chosen.at)
        notes = [*_notes(dead), *_nobody_reads(settings, destination)]

        def reads(what: str, marks: Marks, use: Callable[..., None]) -> None:
            with (
                screen.progress(f"{what} {name}", _size(spans)) as advance,
                closing(scan(admin, client, name, spans)) as found,
            ):
                use(read_letters(found, marks, advance))

        if dry_run or not yes:
            plan = Tally()
            first: list[Letter] = []
            marks = ledger.read(admin, client, dead)
            reads("reading", marks, lambda b: first.extend(_to_send(b, judge, plan, limit)))
            what = f"{screen.dead_letters(plan.total)} of {name} to send to {destination.topic}."
            if first:
                _print_letters(name, first)
            _print_counts(what, plan, notes)
            if dry_run or not plan.total:
                return
            if not typer.confirm(f"Send them to {destination.topic}?", err=True):
                raise RetryError("Nothing was sent.", "That was the answer.")
        tally = Tally()
        with Sender(admin, client, dead, destination, batch) as sender:
            sent = sender.take_over()
            try:
                reads("replaying", sent, lambda b: sender.run(b, judge, sent, tally))
            except KeyboardInterrupt:
                sent_so_far = screen.dead_letters(tally.total)
                raise RetryError(
                    f"Interrupted; sent before, in whole batches: {sent_so_far}.",
                    "Run this again to go on; nothing is sent twice.",
                    Exit.INTERRUPTED,
                ) from None
        what = f"{screen.dead_letters(tally.total)} of {name} sent to {destination.topic}."
        _print_counts(what, tally, notes)


@contextmanager
def _exits() -> Iterator[None]:
    """Errors that are meant for people end the command, each with its exit code."""
    try:
        yield
    except TablegateError as error:
        sys.stderr.write(f"tablegate: {error}\n")
        if isinstance(error, RetryError):
            raise typer.Exit(error.code) from error
        refused = isinstance(error, ConfigError)
        raise typer.Exit(Exit.REFUSED if refused else Exit.ERROR) from error
    except KeyboardInterrupt:
        raise typer.Exit(Exit.INTERRUPTED) from None


@contextmanager
def _connected(
    config: Path, overrides: list[str] | None
) -> Iterator[tuple[Settings, Admin, Mapping[str, str]]]:
    settings = load(config, overrides or [])
    with Admin(settings) as admin:
        yield settings, admin, librdkafka_config(settings)


def _filter(
    topic: str,
    verdict: list[str] | None,
    since: str,
    until: str,
    at: list[str] | None,
    key: str | None,
    source: list[str] | None,
) -> Filter:
    return parse_filter(
        topic,
        time.time_ns() // 1_000_000,
        verdicts=verdict or (),
        since=since,
        until=until,
        at=at or (),
        key=key,
        sources=source or (),
    )


def _destination(admin: Admin, settings: Settings, to: To | None) -> Destination:
    if to is None:
        to = To.RETRY if settings.miss.retry_after.strip(" ,") else To.STREAM
    is_stream = to is To.STREAM
    name, key = (
        (settings.stream.topic, "stream.topic")
        if is_stream
        else (settings.output.retry, "output.retry")
    )
    partitions = len(topics.require(admin, name, key).partitions)
    return Destination(name, partitions, is_stream, topics.max_message_bytes(admin, name))


def _nobody_reads(settings: Settings, destination: Destination) -> Iterator[str]:
    if not destination.is_stream and not settings.miss.retry_after.strip(" ,"):
        yield f"miss.retry_after is empty: the job does not read {destination.topic}."


def _notes(topic: Topic) -> Iterator[str]:
    if topic.hidden:
        yield (
            f"{topic.hidden:,} offsets of {topic.name} lie behind an unfinished transaction and "
            "were left out: look again when it has ended."
        )


def _size(spans: Mapping[int, tuple[int, int]]) -> int:
    return sum(end - begin for begin, end in spans.values())


def _meant(batches: Batches, chosen: Filter, tally: Tally) -> Iterator[Letter]:
    for batch in batches:
        for letter, _ in batch:
            if chosen.means(letter):
                tally.add(letter)
                yield letter


def _to_send(batches: Batches, judge: Judge, plan: Tally, limit: int) -> Iterator[Letter]:
    """Count what a replay would do with all of them, and give the first ones that it would send."""
    for letter in _meant(batches, judge.filter, Tally()):
        fate = judge.fate(letter)
        if fate is not Fate.SEND:
            plan.skip(letter, fate)
            continue
        plan.add(letter)
        if plan.total <= limit:
            yield letter


def _print_letters(topic: str, letters: Iterable[Letter]) -> None:
    # Written as they are: the lines of a log have no markup, and a million of them no time for it.
    sys.stdout.write(screen.heading(topic) + "\n")
    for letter in letters:
        sys.stdout.write(screen.line(letter) + "\n")
    sys.stdout.write("\n")


def _print_counts(what: str, tally: Tally, notes: Iterable[str], *, replayed: bool = False) -> None:
    _out.print(what, markup=False)
    if tally.total:
        _out.print(screen.counts(tally, replayed=replayed))
    for line in (*screen.skipped(tally), *(f"note: {note}" for note in notes)):
        _out.print(line, markup=False)
