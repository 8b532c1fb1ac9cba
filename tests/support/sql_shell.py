"""A SQL session without Flink: a cluster that answers, and queries whose rows a test writes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jobs.sql.files import Statement, of_text
from ops.sql.kinds import Kind, ends_after, kind_of
from ops.sql.results import Change, Column
from ops.sql.steps import Insert, Jobs, Option, Query, Ready, Submitted, Told
from udfs.core.errors import StackError


@dataclass
class Cluster:
    """Jobs by id, each with name and state; a job that is cancelled ends at once."""

    jobs: dict[str, dict[str, Any]] = field(default_factory=dict)
    cancelled: threading.Event = field(default_factory=threading.Event)
    free_slots: int = 1
    tasks: Mapping[str, int] = field(default_factory=lambda: {"RUNNING": 1})
    trace: str = ""
    heartbeats: int = 0
    rest_url: str = "http://127.0.0.1:1"
    logs_hint: str = "The logs are elsewhere."

    def submit(self, name: str, state: str = "RUNNING") -> str:
        self.cancelled.clear()
        job_id = f"{len(self.jobs) + 1:032x}"
        self.jobs[job_id] = {
            "jid": job_id,
            "name": name,
            "state": state,
            "start-time": len(self.jobs),
        }
        return job_id

    def overview(self) -> dict[str, Any]:
        return {"slots-available": self.free_slots}

    def ask(self, cluster: object, method: str, path: str, **body: object) -> dict[str, Any]:
        """In the place of ``ops.cluster.ask``."""
        if path == "/jobs/overview":
            return {"jobs": list(self.jobs.values())}
        job_id = path.partition("?")[0].split("/")[2]
        job = self.jobs.get(job_id)
        if job is None:
            raise StackError(f"There is no job {job_id}.", "Look.")
        if path.endswith("/clientHeartbeat"):
            self.heartbeats += 1
        elif method == "PATCH":
            job["state"] = "CANCELED"
            self.cancelled.set()
        if path.endswith("/exceptions"):
            entries = [{"stacktrace": self.trace}] if self.trace else []
            return {"exceptionHistory": {"entries": entries}}
        return {**job, "vertices": [{"name": "a task", "tasks": self.tasks}]}


@dataclass
class Engine:
    """Takes any statement; ``answers`` has the rows of each query, by its text.

    A query without an end gives its rows and then waits until its job is cancelled.
    """

    cluster: Cluster
    answers: Mapping[str, Sequence[Change]] = field(default_factory=dict)
    endless: bool = True
    insert_only: bool = True
    columns: list[Column] = field(default_factory=lambda: [Column("a", "STRING")])
    audit_texts: Sequence[str] = ()
    selected: tuple[str, ...] = ("source", "problem")
    set_to: dict[str, str] = field(default_factory=dict)
    log: list[str] = field(default_factory=list)
    fails_with: Exception | None = None
    while_submitting: Callable[[], None] = lambda: None

    def read(self, text: str, file: Path) -> list[Statement]:
        return of_text(file, text, {})

    def audits(self) -> list[Statement]:
        return [of_text(Path("sql/audits/a.sql"), f"{t};", {})[0] for t in self.audit_texts]

    def options(self) -> dict[str, str]:
        return dict(self.set_to)

    def restore(self, options: Mapping[str, str]) -> None:
        self.set_to = dict(options)

    def ready(self, statement: Statement) -> Ready:
        kind, text = kind_of(statement), statement.text
        self.log.append(f"ready {text}")
        if kind is Kind.QUERY:
            ends = ends_after(text)
            return Query(statement, self.selected, self.insert_only, ends, self._query(text))
        if kind is Kind.INSERT:
            return Insert(statement, (text.split()[2],), self._insert(text))
        if kind is Kind.SET:
            return self._option(statement)
        if kind is Kind.JOBS:
            return Jobs()
        return Told([], [])

    def _query(self, text: str) -> Callable[[str], Submitted]:
        def submit(name: str) -> Submitted:
            self.log.append(f"run {text} with {self.set_to}")
            self.while_submitting()
            job_id = self.cluster.submit(name)
            return Submitted(job_id, self.columns, self._changes(text, job_id))

        return submit

    def _changes(self, text: str, job_id: str) -> Iterator[Change]:
        yield from self.answers.get(text, ())
        if self.fails_with:
            raise self.fails_with
        if self.endless:
            self.cluster.cancelled.wait(10)
        else:
            self.cluster.jobs[job_id]["state"] = "FINISHED"

    def _insert(self, text: str) -> Callable[[str], str]:
        def submit(name: str) -> str:
            self.log.append(f"run {text}")
            self.while_submitting()
            return self.cluster.submit(name)

        return submit

    def _option(self, statement: Statement) -> Option:
        _, name, _, value, _ = statement.text.split("'")

        def apply() -> None:
            self.set_to[name] = value

        apply()
        return Option(statement, apply)


def rows(*values: str) -> list[Change]:
    return [Change("+I", (value,)) for value in values]
