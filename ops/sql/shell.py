"""A session: statements and commands, one after another, and what becomes of their jobs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from jobs.settings import Settings
from jobs.sql.files import Statement
from jobs.sql.findings import require_columns
from jobs.sql.masking import Masks
from ops import flink_run
from ops.cluster import Cluster
from ops.sql.audits import AUDIT_S, Audit, audit, summary
from ops.sql.errors import Exit, ShellError
from ops.sql.kinds import title
from ops.sql.results import Change, Column
from ops.sql.running import Clock, End, Running
from ops.sql.screen import Mode, Screen
from ops.sql.steps import Insert, Jobs, Option, Query, Ready, Statements, Told
from ops.sql.submitting import Interrupts, Submitting, end_job
from ops.sql.words import COMMANDS

_OURS = re.compile(r"\.sql-[0-9a-f]{6}: ")
_OPTION = re.compile(r"SET\s+'tablegate\.([\w-]+)'\s*=\s*'([^']*)'", re.IGNORECASE)
_LIVING = frozenset({"RUNNING", "CREATED", "INITIALIZING", "RESTARTING", "FAILING"})
_COMING = "Flink's client is at the submission; the job is cancelled as soon as it is there."
_NOTHING = "Interrupted; nothing was submitted."
# For a job that is wanted no more, in seconds.
_END_S = 60.0
_ID = re.compile(r"[0-9a-f]{4,32}")

HELP = f"""\
A statement ends with a semicolon and may have several lines.
  SELECT ...                       runs as a job of its own; Ctrl-C ends both
  INSERT INTO ... SELECT ...       runs as a job that goes on without the session
  EXPLAIN SELECT ...               the plan
  SHOW TABLES; SHOW VIEWS; DESCRIBE x; SHOW CREATE VIEW x; SHOW JOBS
  CREATE TEMPORARY TABLE / VIEW ...; DROP TEMPORARY TABLE / VIEW x
  SET; SET 'name' = 'value'        settings of Flink's planner, and
      'tablegate.result-mode'      {", ".join(Mode)}: how a result that changes is shown
      'tablegate.timeout'          seconds after which a query ends by itself; '' for never
${{NAME}} stands for a topic or an option of the settings (sql/README.md lists them).
  \\jobs    \\cancel ID    \\audits [SECONDS]    \\?    \\q
"""


@dataclass(frozen=True)
class Inserted:
    """The job of an INSERT."""

    job_id: str


@dataclass(frozen=True)
class Preference:
    """A setting of the shell's own, in the place where it was made."""

    statement: Statement
    name: str
    value: str


Step = Ready | Preference


class Shell:
    """One session.

    Args:
        engine: where the statements are made ready.
        cluster: where their jobs run.
        settings: those of the session.
        name: of the session; its jobs and its consumer group have it in theirs.
        screen: where it shows what it has to say.
        masks: what must not be shown.
        timeout_s: after how many seconds a query ends by itself; None: never.
        mode: how a result that changes is shown.
    """

    def __init__(
        self,
        engine: Statements,
        cluster: Cluster,
        settings: Settings,
        name: str,
        screen: Screen,
        masks: Masks,
        *,
        timeout_s: float | None = None,
        mode: Mode = Mode.AUTO,
    ) -> None:
        self._engine, self._cluster, self._settings = engine, cluster, settings
        self._name, self._screen, self._masks = name, screen, masks
        self._timeout_s, self._mode = timeout_s, mode
        self._inserts: dict[str, str] = {}
        self._commands: Mapping[str, Callable[[str], Exit]] = {
            "\\?": self._help,
            "\\jobs": self._jobs,
            "\\cancel": self._cancel,
            "\\audits": self._audits,
        }

    @property
    def job_name(self) -> str:
        """The name of the job whose topics are read."""
        return self._settings.job.name

    # ------------------------------------------------------------------ what is typed

    def run(self, text: str, file: Path) -> Exit:
        """Statements, or one command of the shell's own.

        All statements are checked before the first one is run. Raises TablegateError.
        """
        if text.lstrip().startswith("\\"):
            return self._command(text.strip())
        before = self._engine.options()
        statements = self._engine.read(text, file)
        if len(statements) > 1:
            # Each is planned, which takes seconds on a busy machine.
            self._screen.note(f"Checking {len(statements)} statements of {file}; nothing runs yet.")
        try:
            steps = [self._ready(statement) for statement in statements]
        finally:
            # Each setting is made once more where it stands among the statements that are run.
            self._engine.restore(before)
        for step in steps:
            code = self._step(step)
            if code is not Exit.DONE:
                return code
        return Exit.DONE

    def _ready(self, statement: Statement) -> Step:
        if option := _OPTION.fullmatch(statement.text):
            return self._preference(statement, option[1].lower(), option[2])
        return self._engine.ready(statement)

    @staticmethod
    def _preference(statement: Statement, name: str, value: str) -> Preference:
        if name == "result-mode" and value in set(Mode):
            return Preference(statement, name, value)
        if name == "timeout" and re.fullmatch(r"\d*\.?\d*", value):
            return Preference(statement, name, value)
        raise statement.error(
            f"the shell takes no 'tablegate.{name}' = '{value}'.",
            f"It knows 'tablegate.result-mode' ({', '.join(Mode)}) and 'tablegate.timeout' "
            "(seconds, or '' for never).",
        )

    def _command(self, text: str) -> Exit:
        name, _, rest = text.rstrip(";").partition(" ")
        known = self._commands.get(name)
        if known is None:
            raise ShellError(
                f"There is no command {name}.", f"Known are {' '.join(COMMANDS)}.", Exit.REFUSED
            )
        return known(rest.strip())

    # ------------------------------------------------------------------ statements

    def _step(self, step: Step) -> Exit:
        if isinstance(step, Query):
            return self._query(step)
        if isinstance(step, Insert):
            return self._insert(step)
        if isinstance(step, Jobs):
            return self._jobs("")
        if isinstance(step, Preference):
            self._prefer(step)
        elif isinstance(step, Option):
            step.apply()
        elif isinstance(step, Told) and step.columns:
            self._screen.rows(step.columns, step.rows)
        return Exit.DONE

    def _prefer(self, preference: Preference) -> None:
        if preference.name == "timeout":
            self._timeout_s = float(preference.value) if preference.value.strip(".") else None
        else:
            self._mode = Mode(preference.value)

    def _query(self, query: Query) -> Exit:
        self._say_when_full()
        with self._running(query) as running:
            try:
                end = self._screen.query(running, query, self._mode, Clock(self._timeout_s))
            except KeyboardInterrupt:
                end = End.INTERRUPTED
                if running.submitted is None:
                    self._screen.note(_COMING)
        # Said when it is true: the block above has seen the job end.
        if end is End.INTERRUPTED:
            submitted = running.submitted
            self._screen.note(f"Job {submitted.job_id} is cancelled." if submitted else _NOTHING)
            return Exit.INTERRUPTED
        if end is End.TIME:
            self._screen.note(f"The query's time is up; job {running.job_id} is cancelled.")
        return Exit.DONE

    def _running(self, query: Query) -> Running:
        return Running(self._cluster, partial(query.submit, self._job_name(query.statement)))

    def _insert(self, insert: Insert) -> Exit:
        self._say_when_full()
        for note in self._shared(insert):
            self._screen.note(note)
        name = self._job_name(insert.statement)
        job_id = self._inserted(insert, name)
        if not job_id:
            return Exit.INTERRUPTED
        self._inserts[job_id] = name
        columns = [Column("job", "STRING"), Column("name", "STRING")]
        self._screen.rows(columns, [Change("+I", (job_id, name))])
        return Exit.DONE

    def _inserted(self, insert: Insert, name: str) -> str:
        """The job's id; "" when Ctrl-C was pressed before it was there."""
        with Interrupts() as interrupts:
            submitting = Submitting(self._cluster, lambda: Inserted(insert.submit(name)))
            try:
                return submitting.wait(interrupts).job_id
            except KeyboardInterrupt:
                self._screen.note(_COMING)
                ended = submitting.end(_END_S)
        self._screen.note(f"Job {ended.job_id} is cancelled." if ended else _NOTHING)
        return ""

    def _shared(self, insert: Insert) -> Iterator[str]:
        output = self._settings.output
        written = {
            "enriched_topic": output.enriched,
            "retry_topic": output.retry,
            "dead_topic": output.dead,
        }
        for table in insert.tables:
            if table in written:
                yield f"{written[table]} is what the job {self.job_name} writes, too."

    def _job_name(self, statement: Statement) -> str:
        return f"{self.job_name}.{self._name}: {title(self._masks(statement.text))}"

    def _say_when_full(self) -> None:
        overview = self._cluster.overview()
        if overview.get("slots-available", 1) < self._settings.job.parallelism:
            self._screen.note(
                "Not enough slots are free: the job waits until another one has ended, or a "
                "TaskManager more is there."
            )

    # ------------------------------------------------------------------ commands

    def _help(self, _: str) -> Exit:
        self._screen.note(HELP.rstrip())
        return Exit.DONE

    def _jobs(self, _: str) -> Exit:
        columns = [Column(name, "STRING") for name in ("job", "state", "name")]
        listed = sorted(
            flink_run.jobs(self._cluster),
            key=lambda job: (job["state"] not in _LIVING, -job["start-time"]),
        )
        rows = [
            Change("+I", (job["jid"], job["state"], self._masks(job["name"]))) for job in listed
        ]
        self._screen.rows(columns, rows)
        return Exit.DONE

    def _cancel(self, prefix: str) -> Exit:
        if not _ID.fullmatch(prefix):
            raise ShellError(
                "\\cancel needs the id of a job, or its first four characters at least.",
                "\\jobs lists them.",
                Exit.REFUSED,
            )
        found = [j for j in flink_run.jobs(self._cluster) if j["jid"].startswith(prefix)]
        if len(found) != 1:
            raise ShellError(
                f"{len(found)} jobs have an id that begins with {prefix}.",
                "\\jobs lists them.",
                Exit.REFUSED,
            )
        (job,) = found
        if not _OURS.search(job["name"]):
            raise ShellError(
                f"Job {job['jid']} ({job['name']}) was not started by a SQL session.",
                f"If it shall end all the same: tablegate job cancel {job['jid']}",
                Exit.REFUSED,
            )
        state = end_job(self._cluster, job["jid"])
        self._screen.note(f"Job {job['jid']} is {state}.")
        return Exit.DONE

    def _audits(self, seconds: str) -> Exit:
        if seconds and not re.fullmatch(r"\d+", seconds):
            raise ShellError("\\audits takes a number of seconds.", "\\audits 30", Exit.REFUSED)
        limit_s = float(seconds or AUDIT_S)
        ready = [self._audit_query(statement) for statement in self._engine.audits()]
        found: list[Audit] = []
        for query in ready:
            self._say_when_full()
            result = audit(query.statement, query, self._running(query), limit_s)
            found.append(result)
            self._screen.note(summary(result))
            if result.rows:
                self._screen.rows(result.columns, result.rows)
        failed = sum(not result.passed for result in found)
        unchecked = sum(not result.checked for result in found)
        behind = f" ({unchecked} not checked)" if unchecked else ""
        self._screen.note(f"{len(found)} audits, {failed} of them not passed{behind}.")
        return Exit.FAILED if failed else Exit.DONE

    def _audit_query(self, statement: Statement) -> Query:
        ready = self._engine.ready(statement)
        if isinstance(ready, Query):
            require_columns(statement, ready.columns)
            return ready
        raise statement.error("an audit is a SELECT.", "Put it into the folder that is for it.")

    # ------------------------------------------------------------------ the end

    def left_running(self) -> dict[str, str]:
        """Jobs of INSERTs of this session that still run, id to name."""
        states = {job["jid"]: job["state"] for job in flink_run.jobs(self._cluster)}
        return {j: name for j, name in self._inserts.items() if states.get(j) in _LIVING}
