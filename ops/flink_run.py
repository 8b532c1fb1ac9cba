"""Submit a job with `flink run`, watch it, stop it with a savepoint.

Submitting goes through Flink's own command line, because that is what people run. Everything after
that asks the REST interface, which answers in milliseconds where the command line starts a JVM.
"""

import re
import shlex
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict, Unpack

from jobs.settings.secrets import is_secret
from ops.cluster import Cluster, ask
from ops.package import package
from ops.paths import ROOT, UDFS_ZIP, VENV_PYTHON
from udfs.core.errors import StackError

ENRICH = ROOT / "jobs" / "enrich.py"
ENRICH_SQL = ROOT / "jobs" / "enrich_sql.py"
AUDIT_SQL = ROOT / "jobs" / "audit_sql.py"

_JOB_ID = re.compile(r"JobID ([0-9a-f]{32})")
_POLL_S = 0.1
_REFRESHED_S = 10.0
_ENDED = frozenset({"FAILED", "CANCELED", "FINISHED", "SUSPENDED"})
# Of what a failed `flink run` prints, the last lines name the cause once Java's frames are left
# out, and with them the trace that says no more than that Python exited.
_OUTPUT_LINES = 30
_JAVA_FRAME = re.compile(r"\s+(at |\.\.\. \d+ more)")
_CAUSE = re.compile(r"^Caused by: ([^\n]+)$", re.MULTILINE)
_CAUSE_LENGTH = 600
_CLIENT_TRACE = "org.apache.flink.client.program.ProgramAbortException"


class Submission(TypedDict, total=False):
    """What a job is submitted with; `arguments` says what each means."""

    config: Path | str | None
    overrides: Sequence[str]
    entry: Path
    from_savepoint: str | None
    flink_settings: Mapping[str, str] | None
    job_arguments: Sequence[str]
    extra_python_files: Sequence[Path]
    package_zip: Path
    worker_python: str
    attached: bool


def arguments(
    *,
    config: Path | str | None = None,
    overrides: Sequence[str] = (),
    entry: Path = ENRICH,
    from_savepoint: str | None = None,
    flink_settings: Mapping[str, str] | None = None,
    job_arguments: Sequence[str] = (),
    extra_python_files: Sequence[Path] = (),
    package_zip: Path = UDFS_ZIP,
    worker_python: str = str(VENV_PYTHON),
    attached: bool = False,
) -> list[str]:
    """The arguments of `flink` that submit a job of ours and return at once.

    Args:
        config: the job's TOML file.
        overrides: each `dotted.key=value`, for `--set`.
        entry: the Python file that is the job.
        from_savepoint: path of a savepoint or retained checkpoint to start from.
        flink_settings: Flink options of this one job (`-D`).
        job_arguments: further arguments of the entry, after the above.
        extra_python_files: files or folders for the workers, beside the packaged `jobs` and `udfs`.
        package_zip: `jobs` and `udfs` for the workers; an earlier deploy's instead of ours.
        worker_python: the interpreter, by its path on the workers.
        attached: return when the job has ended instead.
    """
    line = ["run"] if attached else ["run", "-d"]
    if from_savepoint:
        # The JobManager looks it up, from another working directory than ours.
        here = Path(from_savepoint)
        line += ["-s", str(here.resolve()) if here.exists() else from_savepoint]
    for key, value in (flink_settings or {}).items():
        line.append(f"-D{key}={value}")
    line += ["-pyexec", worker_python, "-pyclientexec", str(VENV_PYTHON)]
    files = ",".join(str(path) for path in (package_zip, *extra_python_files))
    line += ["-pyfs", files, "-py", str(entry)]
    if config is not None:
        line += ["--config", str(config)]
    for override in overrides:
        line += ["--set", override]
    return [*line, *job_arguments]


def shown(flink_arguments: Sequence[str]) -> str:
    """A `flink` line for a person, to print or paste, with secrets masked."""
    parts = ["flink"]
    for before, part in zip(["", *flink_arguments], flink_arguments, strict=False):
        key, equals, value = part.partition("=")
        if before == "--set" and equals and is_secret(key.strip(), value):
            part = f"{key}=***"  # noqa: PLW2901  (the masked form is what this loop is for)
        parts.append(shlex.quote(part))
    return " ".join(parts)


def submit(
    cluster: Cluster,
    *,
    timeout_s: float = 180,
    keep_open: Sequence[int] = (),
    **submission: Unpack[Submission],
) -> str:
    """Submit a job. Packages `jobs` and `udfs` as they are now, unless a zip is given.

    See `arguments`, and `Cluster.flink` for `keep_open`.

    Returns:
        The job's id.

    Raises:
        StackError: `flink run` failed; the error holds what it printed.
    """
    if "package_zip" not in submission:
        package()
    line = arguments(**submission)
    result = cluster.flink(*line, timeout_s=timeout_s, keep_open=keep_open)
    output = result.stdout + result.stderr
    found = _JOB_ID.search(output)
    if result.returncode or not found:
        raise StackError(
            f"`{shown(line)}` exited with {result.returncode} and submitted nothing:\n"
            f"{_telling(output)}\n",
            cluster.logs_hint,
        )
    return found[1]


def run_to_end(
    cluster: Cluster, *, timeout_s: float = 180, **submission: Unpack[Submission]
) -> str:
    """Run a client whose jobs end, and return what it printed. Arguments: `submit`.

    Raises:
        StackError: it failed, with what it said, or it took longer than `timeout_s` seconds; then
            its job may still run.
    """
    if "package_zip" not in submission:
        package()
    line = arguments(**submission | {"attached": True})
    result = cluster.flink(*line, timeout_s=timeout_s)
    if result.returncode:
        raise StackError(
            f"`{shown(line)}` exited with {result.returncode}:\n"
            f"{_telling(result.stdout + result.stderr)}\n",
            cluster.logs_hint,
        )
    return result.stdout


def _telling(output: str) -> str:
    told = output.partition(_CLIENT_TRACE)[0].strip() or output
    lines = [text for text in told.splitlines() if not _JAVA_FRAME.match(text)]
    return "\n".join(lines[-_OUTPUT_LINES:])


# ---------------------------------------------------------------------------------- after that


def job_state(cluster: Cluster, job_id: str) -> str:
    """The job's state in Flink's words: RUNNING, RESTARTING, FAILED, FINISHED and so on.

    Raises:
        StackError: the cluster does not know the job or does not answer.
    """
    return str(ask(cluster, "GET", f"/jobs/{job_id}")["state"])


def restarts(cluster: Cluster, job_id: str) -> int:
    """How often the job was restarted since it was submitted."""
    # A list, not an object: the one answer of that shape.
    answer: Any = ask(cluster, "GET", f"/jobs/{job_id}/metrics?get=numRestarts")
    return int(answer[0]["value"]) if answer else 0


def wait_restarted(
    cluster: Cluster, job_id: str, *, before: int = 0, deadline_s: float = 120
) -> None:
    """Return when the job was restarted more than `before` times and every task runs again.

    Raises:
        StackError: the job ended instead, or the deadline passed.
    """
    end = time.monotonic() + deadline_s
    while restarts(cluster, job_id) <= before:
        state = job_state(cluster, job_id)
        if state in _ENDED or time.monotonic() > end:
            raise StackError(
                f"Job {job_id} is {state} and was restarted {restarts(cluster, job_id)} times,"
                f" expected more than {before} within {deadline_s:g} s.",
                cluster.logs_hint,
            )
        time.sleep(_POLL_S)
    wait_running(cluster, job_id, deadline_s=max(1.0, end - time.monotonic()))


def busy_taskmanagers(cluster: Cluster) -> list[int]:
    """Numbers of the TaskManagers on which some slot is taken, for `kill_taskmanager`."""
    listed = ask(cluster, "GET", "/taskmanagers")["taskmanagers"]
    return sorted(
        int(entry["id"].rpartition("-")[2])
        for entry in listed
        if entry["freeSlots"] < entry["slotsNumber"]
    )


def failure(cluster: Cluster, job_id: str) -> str:
    """The last exception that the job ended or restarted with, with its stack; "" if none."""
    history = ask(cluster, "GET", f"/jobs/{job_id}/exceptions")["exceptionHistory"]["entries"]
    if history:
        return str(history[0]["stacktrace"])
    # A job that failed before it had tasks, for a savepoint that does not fit, has no history.
    result = ask(cluster, "GET", f"/jobs/{job_id}/execution-result")
    cause = (result.get("job-execution-result") or {}).get("failure-cause") or {}
    return str(cause.get("stack-trace", ""))


def wait_running(cluster: Cluster, job_id: str, *, deadline_s: float = 120) -> None:
    """Return when every task of the job runs.

    Raises:
        StackError: the job ended instead, or the deadline passed; the job's failure is in it.
    """
    end = time.monotonic() + deadline_s
    while True:
        job = ask(cluster, "GET", f"/jobs/{job_id}")
        states = task_states(job)
        if job["state"] == "RUNNING" and states and states <= {"RUNNING", "FINISHED"}:
            return
        if job["state"] in _ENDED or time.monotonic() > end:
            raise StackError(
                _not_running(cluster, job_id, job["state"], states, deadline_s),
                cluster.logs_hint,
            )
        time.sleep(_POLL_S)


def _not_running(
    cluster: Cluster, job_id: str, state: str, states: set[str], deadline_s: float
) -> str:
    trace = failure(cluster, job_id)
    if state in _ENDED:
        cause = last_cause(trace)
        return (
            f"Job {job_id} is {state}: {cause}\n{trace}" if cause else f"Job {job_id} is {state}."
        )
    tasks = f", tasks {sorted(states)}" if states else ""
    return f"Job {job_id} is {state}{tasks}, not running after {deadline_s:g} s:\n{trace}"


def runs(cluster: Cluster, job_id: str) -> bool:
    """Whether every task of the job runs now. False also while no JobManager knows the job."""
    try:
        job = ask(cluster, "GET", f"/jobs/{job_id}")
    except StackError:
        return False
    return job["state"] == "RUNNING" and task_states(job) == {"RUNNING"}


def task_states(job: Mapping[str, Any]) -> set[str]:
    """The states in which the subtasks of a job are, by what `/jobs/ID` says of it."""
    # Not the status of the vertices: a vertex is RUNNING as soon as one of its subtasks is, while
    # others are still being deployed (source: ExecutionJobVertex.getAggregateJobVertexState).
    counts = [vertex["tasks"] for vertex in job["vertices"]]
    return {state for count in counts for state, tasks in count.items() if tasks}


def wait_state(cluster: Cluster, job_id: str, wanted: str, *, deadline_s: float = 120) -> None:
    """Return when the job is in that state.

    Raises:
        StackError: the job ended in another one, or the deadline passed.
    """
    end = time.monotonic() + deadline_s
    while (state := job_state(cluster, job_id)) != wanted:
        if state in _ENDED or time.monotonic() > end:
            raise StackError(
                f"Job {job_id} is {state}, expected {wanted} within {deadline_s:g} s:\n"
                f"{failure(cluster, job_id)}",
                cluster.logs_hint,
            )
        time.sleep(_POLL_S)


def stop_with_savepoint(
    cluster: Cluster,
    job_id: str,
    directory: Path | str | None = None,
    *,
    deadline_s: float = 180,
) -> str:
    """Stop the job with a savepoint, never draining: that would release held events.

    Args:
        cluster: where the job runs.
        job_id: its id.
        directory: where to put the savepoint; the cluster's configured directory by default.
        deadline_s: how long it may take, in seconds.

    Returns:
        The savepoint's path, for `from_savepoint`.

    Raises:
        StackError: the savepoint failed, or the deadline passed.
    """
    body: dict[str, object] = {"drain": False}
    if (target := _uri(cluster, directory)) is not None:
        body["targetDirectory"] = target
    trigger = ask(cluster, "POST", f"/jobs/{job_id}/stop", **body)
    location = _finished_savepoint(cluster, job_id, trigger["request-id"], deadline_s)
    try:
        wait_state(cluster, job_id, "FINISHED")
    except StackError as error:
        raise StackError(
            f"Savepoint {location} is complete, but job {job_id} has not stopped: {error.what}",
            f"{error.remedy} Look at the job before the savepoint is used.",
        ) from error
    return location


def take_savepoint(
    cluster: Cluster,
    job_id: str,
    directory: Path | str | None = None,
    *,
    deadline_s: float = 180,
) -> str:
    """Take a savepoint of a job that goes on, to come back to. Arguments: `stop_with_savepoint`.

    Returns:
        The savepoint's path, for `from_savepoint`.

    Raises:
        StackError: the savepoint failed, or the deadline passed.
    """
    body: dict[str, object] = {"cancel-job": False}
    if (target := _uri(cluster, directory)) is not None:
        body["target-directory"] = target
    trigger = ask(cluster, "POST", f"/jobs/{job_id}/savepoints", **body)
    return _finished_savepoint(cluster, job_id, trigger["request-id"], deadline_s)


def _uri(cluster: Cluster, directory: Path | str | None) -> str | None:
    target = cluster.savepoint_dir if directory is None else directory
    if target is None or (isinstance(target, str) and "://" in target):
        return target
    return Path(target).resolve().as_uri()


def _finished_savepoint(cluster: Cluster, job_id: str, request_id: str, deadline_s: float) -> str:
    end = time.monotonic() + deadline_s
    path = f"/jobs/{job_id}/savepoints/{request_id}"
    while (answer := ask(cluster, "GET", path))["status"]["id"] != "COMPLETED":
        if time.monotonic() > end:
            raise StackError(
                f"The savepoint of job {job_id} was not complete after {deadline_s:g} s.",
                "The load may hold it up: look at the job's checkpoints on the web page.",
            )
        time.sleep(_POLL_S)
    outcome = answer["operation"]
    if "failure-cause" in outcome:
        cause = last_cause(str(outcome["failure-cause"]["stack-trace"]))
        raise StackError(
            f"The savepoint of job {job_id} failed: {cause}.",
            "The job runs on; try again once the cause is removed. The JobManager's log has the "
            "whole trace.",
        )
    return str(outcome["location"])


def last_cause(trace: str) -> str:
    """The innermost cause that a Java stack trace names; its first line when it names none."""
    causes = _CAUSE.findall(trace)
    first = next((line.strip() for line in trace.splitlines() if line.strip()), "")
    return (causes[-1] if causes else first)[:_CAUSE_LENGTH]


def cancel(cluster: Cluster, job_id: str, *, deadline_s: float = 60) -> None:
    """Cancel the job without a savepoint and return when it has ended. Its checkpoints stay.

    Raises:
        StackError: it did not end in time. A job that had ended before is no error.
    """
    if job_state(cluster, job_id) in _ENDED:
        return
    try:
        ask(cluster, "PATCH", f"/jobs/{job_id}?mode=cancel")
        wait_state(cluster, job_id, "CANCELED", deadline_s=deadline_s)
    except StackError:
        # A query with an end may come to it between two questions; then there is nothing to cancel,
        # and what REST says of the job follows some seconds later (web.refresh-interval).
        end = time.monotonic() + _REFRESHED_S
        while job_state(cluster, job_id) not in _ENDED:
            if time.monotonic() > end:
                raise
            time.sleep(_POLL_S)


def jobs(cluster: Cluster) -> list[dict[str, Any]]:
    """Every job that the cluster remembers: `jid`, `name`, `state`, times in milliseconds."""
    listed: list[dict[str, Any]] = ask(cluster, "GET", "/jobs/overview")["jobs"]
    return listed
