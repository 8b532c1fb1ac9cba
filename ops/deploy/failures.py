"""From the stack trace of a job that did not come up to what a person on call can act on."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ops.deploy.operator_ids import operator_id
from ops.deploy.savepoints import WAY_OUT
from ops.flink_run import last_cause

_FILE = re.compile(r"(?:FileNotFoundException|NoSuchFileException): (\S+)")
_SHORT = re.compile(
    r"(EOFException|CorruptedException|Corruption|StreamCorruptedException"
    # What random bytes are taken for; a real one of another Flink says the same.
    r"|VersionMismatchException)"
)
_RESTORE = re.compile(
    r"Could not restore (?:keyed|operator) state backend|Failed to restore|BackendBuildingException"
    r"|Exception while (?:creating|restoring)|Cannot find (?:checkpoint|meta data)"
)
_UNCLAIMED = re.compile(r"Cannot map checkpoint/savepoint state for operator ([0-9a-f]{32})")
_MAX_PARALLELISM = re.compile(r"[Mm]ax(?:imum)? parallelism[^\n]*")
_OURS = re.compile(
    r"(?:TargetError|NoAnswerError|StaleCodeError|WorkerError|TableTooLargeError)(?:'>)?: ([^\n]+)"
)
_LENGTH = 600

# Flink 2.3.0 keeps no exception of a job that failed before it had tasks.
NOT_RECORDED = (
    "Flink recorded none: the job failed before it had tasks, mostly because the savepoint or "
    "checkpoint that it starts from is missing, cannot be read, or has state of an operator that "
    "this version does not have. The JobManager's log names the file, or the operator (`Cannot map "
    f"checkpoint/savepoint state`). {WAY_OUT}"
)


def explain(trace: str, uids: Iterable[str] = ()) -> str:
    """The cause of a failed start and the way out, in a sentence or two.

    Args:
        trace: the job's failure as Flink reports it, or what `flink run` printed.
        uids: those of the version, to name an operator by.
    """
    if match := _OURS.search(trace):
        return match[1].strip()[:_LENGTH]
    if match := _UNCLAIMED.search(trace):
        names = {operator_id(uid): uid for uid in uids}
        who = names.get(match[1], match[1])
        return (
            f"the savepoint has state of operator {who}, which this version does not have. Deploy "
            "a version that has it, or use `tablegate upgrade --reload-table`."
        )
    if _RESTORE.search(trace) or "restore" in trace.lower():
        if match := _FILE.search(trace):
            return f"the state file {match[1].rstrip(':')} is missing. {WAY_OUT}"
        if match := _SHORT.search(trace):
            return f"a state file is damaged ({match[1]}: {last_cause(trace)}). {WAY_OUT}"
        if match := _MAX_PARALLELISM.search(trace):
            return (
                f"{match[0].strip()[:_LENGTH]}. job.max_parallelism cannot change with a savepoint."
            )
    return last_cause(trace)
