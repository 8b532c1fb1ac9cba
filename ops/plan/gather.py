"""Puts a plan's numbers together: what is given, else measured, else assumed."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass

from jobs.settings import Settings
from ops.plan import rates
from ops.plan.figures import Figure, Origin, checked
from ops.plan.model import Inputs
from ops.plan.topics import Topics
from udfs.core.errors import ConfigError

_WITHIN_S = 600.0
WINDOW_MIN = 10.0


@dataclass(frozen=True, slots=True)
class Asked:
    """The numbers that were given as options; None: this one was not. Units as the options'."""

    rows: float | None = None
    delta_rows: float | None = None
    row_bytes: float | None = None
    events_per_second: float | None = None
    event_bytes: float | None = None
    load_rate: float | None = None
    join_rate: float | None = None
    release_rate: float | None = None
    parallelism: float | None = None
    backlog_events: float | None = None
    start_seconds: float | None = None
    catch_up_within: float | None = None
    pause_stream: bool | None = None
    window_min: float = WINDOW_MIN

    def given(self, name: str, unit: str, *, zero: bool = False) -> Figure | None:
        """The option's figure, None where it was not given.

        Raises:
            ConfigError: it is not above 0, nor 0 where ``zero`` is allowed.
        """
        value = getattr(self, name)
        option = f"--{name.replace('_', '-')}"
        if value is None:
            return None
        return Figure(checked(option, value, unit, zero=zero), unit, Origin.GIVEN, option)


def gather(
    asked: Asked, measured: dict[str, Figure], settings: Settings | None, config: str
) -> Inputs:
    """What is given, else measured (topics, a bench's file), else assumed.

    Raises:
        ConfigError: a number that cannot be, one that is needed and neither given nor to be
            measured, or ``--rows`` and ``--delta-rows`` together.
        TablegateError: the topics cannot be asked; see `Topics`.
    """
    if asked.rows is not None and asked.delta_rows is not None:
        raise ConfigError(
            "--delta-rows", asked.delta_rows, "give it or --rows: a restart reads only the former"
        )
    checked("--window", asked.window_min, "minutes")
    restart = asked.delta_rows is not None
    # Checked before the brokers are asked, which takes seconds.
    name = "delta_rows" if restart else "rows"
    rows = asked.given(name, "rows", zero=True)
    rate = asked.given("events_per_second", "events/s", zero=True)
    row_bytes = asked.given("row_bytes", "bytes")
    event_bytes = asked.given("event_bytes", "bytes")
    backlog = asked.given("backlog_events", "events", zero=True)
    start = asked.given("start_seconds", "s", zero=True)
    within = asked.given("catch_up_within", "s")
    load_rate, measured_row_bytes = _load_rate(asked, measured)
    join_rate = _rate(asked, measured, rates.JOIN, "events/s")
    parallelism = _parallelism(asked, settings, config)
    retention = None
    with Topics(settings) if settings else nullcontext() as topics:
        if topics is not None:
            rows = rows or topics.rows()
            rate = rate or topics.events_per_s(asked.window_min * 60)
            row_bytes = row_bytes or topics.row_bytes()
            event_bytes = event_bytes or topics.event_bytes()
            retention = topics.retention()
            if backlog is None and not restart:
                backlog = topics.backlog()
    if rows is None or rate is None:
        missing = "--rows" if rows is None else "--events-per-second"
        raise ConfigError(missing, None, "give it, or --config with the job's TOML file")
    pause = asked.pause_stream
    if pause is None:
        pause = settings.gate.pause_stream if settings else True
    slack, slack_source = rates.SLACK_EVENTS
    return Inputs(
        rows=rows,
        events_per_s=rate,
        load_rate=load_rate,
        join_rate=join_rate,
        release_rate=_release_rate(asked, measured, join_rate),
        start=start or _assumed(rates.START_S[0], "s", rates.START_S[1]),
        backlog=backlog or _assumed(0.0, "events", "nothing waits before the hold"),
        slack=_assumed(slack, "events", slack_source),
        parallelism=parallelism,
        within=within or _assumed(_WITHIN_S, "s", "a default of this command"),
        row_bytes=row_bytes,
        event_bytes=event_bytes,
        measured_row_bytes=measured_row_bytes,
        retention=retention,
        restart=restart,
        paused=pause,
        broadcast=settings is not None and settings.join.lookup_state == "broadcast",
    )


def _rate(asked: Asked, measured: dict[str, Figure], name: str, unit: str) -> Figure:
    found = asked.given(name, unit) or measured.get(name)
    return found or _assumed(rates.DEFAULTS[name][0], unit, rates.DEFAULTS[name][1])


def _load_rate(asked: Asked, measured: dict[str, Figure]) -> tuple[Figure, Figure | None]:
    """The rate, and of how large rows it is where that is known."""
    found = _rate(asked, measured, rates.LOAD, "rows/s")
    if found.origin is Origin.GIVEN:
        return found, None
    if found.origin is Origin.MEASURED:
        return found, measured.get(rates.ROW_BYTES)
    return found, _assumed(rates.DEFAULTS[rates.ROW_BYTES][0], "bytes", found.source)


def _release_rate(asked: Asked, measured: dict[str, Figure], join_rate: Figure) -> Figure:
    found = asked.given(rates.RELEASE, "events/s") or measured.get(rates.RELEASE)
    return found or _assumed(join_rate.number, "events/s", "as fast as the join")


def _parallelism(asked: Asked, settings: Settings | None, config: str) -> Figure:
    found = asked.given("parallelism", "subtasks")
    if found is not None:
        if found.number != int(found.number):
            raise ConfigError("--parallelism", found.number, "give a whole number of subtasks")
        return found
    if settings is not None:
        source = f"job.parallelism of {config}"
        return Figure(float(settings.job.parallelism), "subtasks", Origin.GIVEN, source)
    return _assumed(1.0, "subtasks", "job.parallelism's default")


def _assumed(value: float, unit: str, source: str) -> Figure:
    return Figure(value, unit, Origin.ASSUMED, source)
