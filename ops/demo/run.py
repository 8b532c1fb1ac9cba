"""Tells the story: two jobs, one table, one stream, and a restart in the middle."""

from __future__ import annotations

import gc
import os
import shutil
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from importlib.metadata import version

from ops.demo import audits, topics
from ops.demo.check import Fault, Rules, Start, expect, judge
from ops.demo.data import Plan, Story
from ops.demo.flink_job import FlinkJob
from ops.demo.outputs import JOBS, KINDS, Collected, Collector, topic
from ops.demo.report import Result, Timing, problems, show, summary, write
from ops.demo.screen import Screen, Standing
from ops.flink_run import ENRICH, cancel, stop_with_savepoint, submit
from ops.package import package
from ops.paths import BUILD, ROOT
from ops.stack.broker import Broker
from ops.stack.flink import FlinkCluster
from udfs.core.errors import StackError

DIRECTORY = BUILD / "demo"
_STACK = DIRECTORY / "stack"
SUMMARY = DIRECTORY / "summary.json"

_TABLE, _STREAM = "customers", "orders"
_PARTITIONS = 4
_CONFIG = ROOT / "conf" / "orders.toml"
_ENTRIES = {
    "ungated": ROOT / "ops" / "demo" / "ungated.py",
    "gated": ENRICH,
}
_RULES = Rules(
    stream_topic=_STREAM,
    key_field="customer_id",
    fields={"tier": "customer_tier", "revision": "customer_revision"},
    id_header="trace-id",
)

# Stop in the middle once this share of the orders is out of ours: by the time that the savepoint
# is taken, it is more, but not yet all.
_MIDDLE = 0.2
# With no sign of progress for so long something hangs. By progress and not by the total: a busy
# machine is slow, and no less right.
_STUCK_S = 240.0
# A job with orders missing that wrote nothing for so long, although it runs, has lost them.
_SILENCE_S = 30.0
_ASK_EVERY_S = 1.0


@dataclass(frozen=True)
class Options:
    """What the command line says. ``keep`` leaves broker and cluster running at the end."""

    plan: Plan
    keep: bool = False


@dataclass
class _Side:
    """One of the two jobs as it goes through its starts."""

    name: str
    submitted: float = 0.0
    submission: Future[str] | None = None
    job: FlinkJob | None = None
    # When all of its tasks were first seen to run; 0 while they do not.
    running: float = 0.0
    loaded: float | None = None
    open: bool = False
    out_at_start: int = 0
    to_open: list[float] = field(default_factory=list)
    to_open_running: list[float] = field(default_factory=list)
    to_first_output: list[float] = field(default_factory=list)

    def submit(self, submission: Future[str], out: int) -> None:
        """A new start: forget what belonged to the last one. ``out``: orders that are out."""
        self.submitted, self.submission, self.out_at_start = time.monotonic(), submission, out
        self.job, self.running, self.loaded, self.open = None, 0.0, None, False


class Demo:
    """One run against a running stack."""

    def __init__(
        self, options: Options, screen: Screen, broker: Broker, cluster: FlinkCluster
    ) -> None:
        self._plan = options.plan
        self._screen = screen
        self._cluster = cluster
        self._kafka = broker.bootstrap_servers
        self._sides = {name: _Side(name) for name in JOBS}
        self._expected_out = 0
        self._starts: list[Start] = []

    def run(self) -> list[str]:
        """Tell the story from the first record to the summary; returns what is wrong, in words.

        Raises StackError when broker, cluster or a job fails.
        """
        plan, say = self._plan, self._screen.step
        self._create_topics()
        story = Story(plan, time.time_ns() // 1_000_000)
        rows = topics.produce(self._kafka, _TABLE, story.table_before())
        say(f"wrote the table: {rows:,} records for {plan.rows:,} customers")
        orders = topics.produce(self._kafka, _STREAM, story.stream_before())
        say(f"wrote the stream: {orders:,} orders, which wait for both jobs")
        with Collector(self._kafka, _RULES.id_header) as collector, ThreadPoolExecutor() as pool:
            self._expected_out = orders
            self._start(pool, collector, {})
            self._watch(collector, lambda: self._in_the_middle(collector), "the middle")
            savepoints = self._stop(pool)
            collector.rest()
            say("both are down")
            stream_end = topics.ends(self._kafka, _STREAM)
            self._starts[-1] = self._starts[-1]._replace(stream_end=stream_end)
            rows = topics.produce(self._kafka, _TABLE, story.table_while_down())
            orders = topics.produce(self._kafka, _STREAM, story.stream_while_down())
            say(f"while both were down: {rows:,} table records written, {orders:,} orders for them")
            self._expected_out += orders
            self._start(pool, collector, savepoints)
            self._watch(collector, lambda: self._all_out(collector), "the last order")
            for name, job in collector.jobs.items():
                say(f"{name}: {job.accounted:,} of {self._expected_out:,} orders are out")
            for side in self._sides.values():
                if side.job is not None:
                    cancel(self._cluster, side.job.job_id)
            collector.rest()
        return self._judge(collector)

    def _create_topics(self) -> None:
        outputs = {topic(job, kind): topics.KEEP for job in JOBS for kind in KINDS}
        wanted = {_TABLE: topics.COMPACTED, _STREAM: topics.KEEP} | outputs
        topics.create(self._kafka, wanted, _PARTITIONS)

    # ------------------------------------------------------------------ start and stop

    def _start(
        self, pool: ThreadPoolExecutor, collector: Collector, savepoints: dict[str, str]
    ) -> None:
        # Asked before the jobs are submitted: what they must have read is at least this.
        self._starts.append(Start(topics.ends(self._kafka, _TABLE), {}))
        how = "from their savepoints" if savepoints else "for the first time"
        self._screen.step(f"both jobs start {how}")
        # Once, before two threads would.
        package()
        for name, side in self._sides.items():
            submission = pool.submit(
                submit,
                self._cluster,
                config=_CONFIG,
                overrides=self._overrides(name),
                entry=_ENTRIES[name],
                from_savepoint=savepoints.get(name),
            )
            side.submit(submission, collector.jobs[name].accounted)

    def _overrides(self, name: str) -> list[str]:
        settings = {
            "job.name": f"demo-{name}",
            "kafka.bootstrap_servers": self._kafka,
            "stream.topic": _STREAM,
            "table.topic": _TABLE,
            **{f"table.fields.{column}": added for column, added in _RULES.fields.items()},
            **{f"output.{kind}": topic(name, kind) for kind in KINDS},
            # What the gate alone does: neither a wait for the row nor another try shall help it.
            "miss.grace_ms": 0,
            "miss.retry_after": "",
        }
        return [f"{key}={value}" for key, value in settings.items()]

    def _stop(self, pool: ThreadPoolExecutor) -> dict[str, str]:
        self._screen.step("both jobs stop with a savepoint")
        stopping = {
            name: pool.submit(stop_with_savepoint, self._cluster, side.job.job_id)
            for name, side in self._sides.items()
            if side.job is not None
        }
        return {name: stopped.result() for name, stopped in stopping.items()}

    # ------------------------------------------------------------------ watching

    def _watch(self, collector: Collector, until: Callable[[], bool], what: str) -> None:
        """Show the bars until ``until`` says so. Raises StackError when nothing moves any more."""
        moved = asked = time.monotonic()
        last: object = None
        with self._screen.bars() as bars:
            while not until():
                collector.poll(0.2)
                now = time.monotonic()
                for side in self._sides.values():
                    self._note_first_output(side, collector)
                if now - asked >= _ASK_EVERY_S:
                    asked = now
                    for side in self._sides.values():
                        self._ask(side)
                    standing = self._standing(collector)
                    bars.show(standing)
                    sides = self._sides.values()
                    progress = standing, [(side.job is None, side.running) for side in sides]
                    # Flink's client has its own patience, and may need minutes on a busy machine.
                    if progress != last or any(side.job is None for side in sides):
                        last, moved = progress, now
                if now - moved > _STUCK_S:
                    missing = [side.name for side in self._sides.values() if not side.running]
                    tasks = f"not all tasks run of {', '.join(missing)}" if missing else "all run"
                    raise StackError(
                        f"{what} did not come: nothing has moved for {_STUCK_S:.0f} s ({tasks}).",
                        f"Look into the logs in {self._cluster.folder}; a busy machine may need "
                        "another try.",
                    )
            bars.show(self._standing(collector))

    def _ask(self, side: _Side) -> None:
        if side.job is None:
            if side.submission is None or not side.submission.done():
                return
            side.job = FlinkJob(self._cluster.rest_url, side.submission.result())
        side.job.refuse_failure()
        if not side.running:
            side.running = time.monotonic() if side.job.running() else 0.0
            return
        if side.name == "gated" and not side.open:
            side.loaded = side.job.read_of(_TABLE, self._starts[-1].table_end)
            side.open = side.job.gate_is_open()
            if side.open:
                side.loaded = 1.0
                now = time.monotonic()
                side.to_open.append(now - side.submitted)
                side.to_open_running.append(now - side.running)

    def _note_first_output(self, side: _Side, collector: Collector) -> None:
        waiting = len(side.to_first_output) < len(self._starts)
        if waiting and collector.jobs[side.name].accounted > side.out_at_start:
            side.to_first_output.append(time.monotonic() - side.submitted)

    def _in_the_middle(self, collector: Collector) -> bool:
        """Ours has opened, and part of the stream is out of both."""
        if not self._running():
            return False
        out = min(job.accounted for job in collector.jobs.values())
        return self._sides["gated"].open and out >= _MIDDLE * self._expected_out

    def _running(self) -> bool:
        # A savepoint needs every task: a join can write before its table's side is up.
        return all(side.running for side in self._sides.values())

    def _all_out(self, collector: Collector) -> bool:
        return self._running() and all(
            job.accounted >= self._expected_out or self._silent(self._sides[name], job)
            for name, job in collector.jobs.items()
        )

    def _silent(self, side: _Side, job: Collected) -> bool:
        """It runs, it may write, and has not for long: what is missing is lost."""
        last = max(job.changed, side.running, side.submitted + sum(side.to_open[-1:]))
        return time.monotonic() - last > _SILENCE_S

    def _standing(self, collector: Collector) -> Standing:
        gated = self._sides["gated"]
        return Standing(
            loaded=gated.loaded,
            gate_open=gated.open,
            out={name: job.accounted for name, job in collector.jobs.items()},
            hits={name: len(job.outputs.enriched) for name, job in collector.jobs.items()},
            orders=self._expected_out,
        )

    # ------------------------------------------------------------------ judging

    def _judge(self, collector: Collector) -> list[str]:
        self._screen.step("the check reads table and stream, and judges every order")
        # A million small tuples, none in a cycle: the collector would only walk them over and over.
        gc.disable()
        try:
            table, stream = (topics.read(self._kafka, name) for name in (_TABLE, _STREAM))
            expected = expect(table, stream, self._starts, _RULES)
            results = {
                name: Result(
                    judge(
                        expected,
                        collector.jobs[name].outputs,
                        replace(_RULES, labelled=name == "gated"),
                    ),
                    Timing(side.to_open, side.to_open_running, side.to_first_output),
                )
                for name, side in self._sides.items()
            }
        finally:
            gc.enable()
        self._screen.step("the audits of sql/audits read the same topics, in SQL")
        found = audits.audited(
            self._cluster, _CONFIG, {name: self._overrides(name) for name in JOBS}
        )
        self._screen.step("done")
        ungated, gated = results["ungated"], results["gated"]
        wrong = problems(ungated, gated)
        wrong += audits.problems(found, ungated.judgement.faults[Fault.WRONG_NULL])
        about = self._about(wrong) | {"audits": audits.summary(found)}
        write(SUMMARY, summary(ungated, gated, about))
        show(self._screen.console, ungated, gated)
        audits.show(self._screen.console, found)
        return wrong

    def _about(self, wrong: list[str]) -> dict[str, object]:
        packages = ("tablegate", "apache-flink", "confluent-kafka")
        return {
            "date": datetime.now(UTC).isoformat(timespec="seconds"),
            "right": not wrong,
            "problems": wrong,
            "seed": self._plan.seed,
            "rows": self._plan.rows,
            "duration_s": round(self._screen.elapsed_s, 1),
            "cores": os.cpu_count(),
            "versions": {package: version(package) for package in packages},
        }


def tell(options: Options, screen: Screen) -> list[str]:
    """Run the whole demo on a stack of its own; returns what is wrong, in words.

    The stack is stopped at the end, whatever happens, unless ``options.keep``.
    """
    with _stack(screen, keep=options.keep) as (broker, cluster):
        return Demo(options, screen, broker, cluster).run()


@contextmanager
def _stack(screen: Screen, *, keep: bool) -> Iterator[tuple[Broker, FlinkCluster]]:
    # What --keep, or a kill -9 of the last demo, left behind.
    stop()
    shutil.rmtree(_STACK, ignore_errors=True)
    broker, cluster = _parts()
    with ExitStack() as stopping:
        stopping.callback(broker.stop)
        stopping.callback(cluster.stop)
        # Side by side: each is mostly a JVM that starts.
        with ThreadPoolExecutor() as pool:
            for starting in [pool.submit(part.start) for part in (broker, cluster)]:
                starting.result()
        screen.step(f"Kafka answers at {broker.bootstrap_servers}, Flink at {cluster.rest_url}")
        if keep:
            # From here on: also what goes wrong is left to look at.
            stopping.pop_all()
            screen.step("both stay up; `tablegate demo --stop` stops them, and so does a new demo")
        yield broker, cluster


def stop() -> None:
    """Stop the demo's stack, if one is running."""
    for part in reversed(_parts()):
        part.stop()


def _parts() -> tuple[Broker, FlinkCluster]:
    # One slot each: the Python operators of a TaskManager share one interpreter lock, and neither
    # job shall wait for the other's.
    cluster = FlinkCluster(_STACK / "flink", taskmanagers=2)
    return Broker(_STACK / "kafka"), cluster
