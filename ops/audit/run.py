"""Runs the audits on a cluster, and leaves no job behind."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from jobs.settings import Settings
from jobs.sql.findings import Finding, findings
from jobs.sql.masking import Masks
from jobs.sql.topics import require_logs
from ops import flink_run
from ops.cluster import Cluster
from udfs.core.errors import StackError

_ENDED = frozenset({"FAILED", "CANCELED", "FINISHED"})


def audit(
    cluster: Cluster,
    settings: Settings,
    *,
    config: Path,
    sql: Path,
    overrides: Sequence[str] = (),
    only: Sequence[str] = (),
    first: int = 5,
    timeout_s: float = 600,
    say: Callable[[str], None] = lambda _: None,
) -> list[Finding]:
    """What the audits below ``sql`` find in the topics of ``settings``, in the order of the files.

    Args:
        cluster: where they run; a free slot is needed.
        settings: those of ``config`` with ``overrides``.
        config: the job's TOML file.
        sql: the folder of the SQL files.
        overrides: each `dotted.key=value`.
        only: names of audits; empty for all.
        first: rows of each to bring along.
        timeout_s: how long it may take, in seconds. An unfinished transaction at the end of a topic
            holds it up.
        say: is told what they wait for.

    Raises:
        PreflightError: a topic of ``settings`` is not there, or the brokers do not answer.
        StackError: the client or its job failed, or it was not done in time.
    """
    require_logs(settings)
    # No refusal: there are clusters that start a TaskManager when a job needs one.
    if not cluster.overview().get("slots-available", 1):
        say(
            f"No slot is free at {cluster.rest_url}: the audits wait until a job has ended or a "
            f"TaskManager more is there, for {timeout_s:g} s at most (--timeout)."
        )
    # The client may be killed while its job runs: a name of its own finds it.
    name = f"audit of {settings.job.name} {uuid.uuid4().hex[:8]}"
    arguments = ["--sql", str(sql.resolve()), "--name", name, "--first", str(first)]
    for audit_name in only:
        arguments += ["--only", audit_name]
    with _masked(settings), _leaving_nothing(cluster, name):
        output = flink_run.run_to_end(
            cluster,
            timeout_s=timeout_s,
            config=config.resolve(),
            overrides=overrides,
            entry=flink_run.AUDIT_SQL,
            job_arguments=arguments,
        )
    return findings(output)


@contextlib.contextmanager
def _leaving_nothing(cluster: Cluster, name: str) -> Iterator[None]:
    try:
        yield
    except BaseException:
        # Also on Ctrl-C. What is asked in vain now has ended with its cluster.
        with contextlib.suppress(StackError):
            for job in flink_run.jobs(cluster):
                if job["name"] == name and job["state"] not in _ENDED:
                    flink_run.cancel(cluster, job["jid"])
        raise


@contextlib.contextmanager
def _masked(settings: Settings) -> Iterator[None]:
    """No password in what a failed client said."""
    try:
        yield
    except StackError as error:
        masks = Masks.of(settings)
        raise StackError(masks(error.what), error.remedy) from None
