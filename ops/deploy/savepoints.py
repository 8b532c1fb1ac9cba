"""What a savepoint holds, and whether a version can start from it."""

from __future__ import annotations

import json
import os
import re
import struct
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from jobs.uids import BROADCAST_JOIN, JOIN
from ops.cluster import Cluster
from ops.deploy.errors import DeployError, Exit
from ops.deploy.operator_ids import operator_id
from ops.paths import ROOT, VENV_PYTHON

STREAM_SOURCE, RETRY_SOURCE = "stream-source", "retry-source"
"""The uids whose state is the offsets of the stream and of the retry topic (jobs/uids.py)."""

WAY_OUT = (
    "Start from an older savepoint (`tablegate deployments` lists them, --savepoint PATH names "
    "one) or from a retained checkpoint (.../JOB_ID/chk-N), or load the table anew with "
    "`tablegate upgrade --reload-table`."
)

_JOINS = {
    operator_id(JOIN.uid): "keyed",
    operator_id(BROADCAST_JOIN.uid): "broadcast",
}
"""The join's operator for each join.lookup_state."""

_READ_TIMEOUT_S = 300
_SCHEME = re.compile(r"[A-Za-z][\w+.-]*:")


@dataclass(frozen=True, slots=True)
class OperatorState:
    """One operator's entry. ``uid`` is empty in savepoints of older Flinks, which kept ids only."""

    id: str
    uid: str
    name: str
    parallelism: int
    max_parallelism: int
    stateful: bool
    splits: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FileProblem:
    """A file that the savepoint needs and that is not there, or not whole."""

    file: str
    problem: str


@dataclass(frozen=True, slots=True)
class Savepoint:
    """A savepoint or retained checkpoint whose metadata could be read."""

    path: str
    modified_ms: int
    operators: tuple[OperatorState, ...]
    files: int = 0
    problems: tuple[FileProblem, ...] = field(default=())


# ------------------------------------------------------------------------------------ decisions


def unclaimed(savepoint: Savepoint, uids: Mapping[str, str]) -> list[str]:
    """The operators with state that no operator of the new version takes, each by uid or id.

    As Flink judges it (``Checkpoints.loadAndValidateCheckpoint``): an operator without state may
    disappear, state may not.
    """
    ids = {operator_id(uid) for uid in uids}
    return [
        f"{operator.uid} ({operator.name})" if operator.uid else f"operator id {operator.id}"
        for operator in savepoint.operators
        if operator.stateful and operator.id not in ids
    ]


def other_max_parallelism(savepoint: Savepoint, wanted: int) -> list[str]:
    """The operators whose state was written with another number of key groups.

    One that has a single group is of an operator with a single task, whatever the job is told.
    """
    return [
        f"{operator.uid or operator.id} has {operator.max_parallelism}"
        for operator in savepoint.operators
        if operator.stateful
        and operator.max_parallelism != wanted
        and (operator.max_parallelism != 1 or operator.id in _JOINS)
    ]


def source_offsets(savepoint: Savepoint, topic: str, source: str = STREAM_SOURCE) -> dict[int, int]:
    """Where the job stood in a topic that it reads: the next offset to read, for each partition.

    Partitions of which nothing was read are left out.

    Raises:
        DeployError: the state has another form than Flink's Kafka connector 5.0 writes.
    """
    found: dict[int, int] = {}
    wanted = operator_id(source)
    for operator in savepoint.operators:
        if operator.id != wanted:
            continue
        for split in operator.splits:
            name, partition, offset = _split(bytes.fromhex(split))
            # Below zero the connector writes symbols: "from the beginning" and the like.
            if name == topic and offset >= 0:
                found[partition] = offset
    return found


def _split(data: bytes) -> tuple[str, int, int]:
    # SimpleVersionedSerialization (version, size), then KafkaPartitionSplitSerializer: topic as
    # Java's writeUTF, partition, starting offset, stopping offset.
    try:
        version, size = struct.unpack_from(">ii", data)
        length = struct.unpack_from(">H", data, 8)[0]
        topic = data[10 : 10 + length].decode()
        partition, start = struct.unpack_from(">iq", data, 10 + length)
    except (struct.error, UnicodeDecodeError) as error:
        raise _unknown_split(data) from error
    if version != 0 or size != len(data) - 8 or size != 2 + length + 4 + 8 + 8:
        raise _unknown_split(data)
    return topic, partition, start


def _unknown_split(data: bytes) -> DeployError:
    return DeployError(
        f"The offsets of a topic in the savepoint have an unknown form ({data[:40].hex()}...).",
        "Another version of the Kafka connector wrote it; this Tablegate knows 5.0.",
    )


def require_whole(savepoint: Savepoint) -> None:
    """Refuses a savepoint with missing or short files.

    Raises:
        DeployError: names the first few files, and the way out.
    """
    if not savepoint.problems:
        return
    lines = "".join(f"\n  - {one.file}: {one.problem}" for one in savepoint.problems[:5])
    more = len(savepoint.problems) - 5
    rest = f"\n  - and {more} more" if more > 0 else ""
    raise DeployError(
        f"Savepoint {savepoint.path} is damaged: {len(savepoint.problems)} of its "
        f"{savepoint.files} state files are missing or not whole:{lines}{rest}\n",
        WAY_OUT,
        Exit.REFUSED,
    )


def require_compatible(savepoint: Savepoint, uids: Mapping[str, str], max_parallelism: int) -> None:
    """Refuses a savepoint that the new version cannot take whole.

    Raises:
        DeployError: names the state that would be lost, or the other number of key groups.
    """
    _require_same_lookup(savepoint, uids)
    lost = unclaimed(savepoint, uids)
    if lost:
        raise DeployError(
            f"Savepoint {savepoint.path} has state that no operator of the new version takes: "
            f"{', '.join(lost)}.",
            "The uids in jobs/uids.py must stay. Never start with --allowNonRestoredState: that "
            "throws this state away. Deploy a version that has these operators, or load the table "
            "anew with `tablegate upgrade --reload-table`.",
            Exit.REFUSED,
        )
    other = other_max_parallelism(savepoint, max_parallelism)
    if other:
        raise DeployError(
            f"Savepoint {savepoint.path} was written with another job.max_parallelism than "
            f"{max_parallelism}: {', '.join(other)}.",
            "Set job.max_parallelism to that number, or load the table anew with "
            "`tablegate upgrade --reload-table`.",
            Exit.REFUSED,
        )


def _require_same_lookup(savepoint: Savepoint, uids: Mapping[str, str]) -> None:
    found = {_JOINS[o.id] for o in savepoint.operators if o.stateful and o.id in _JOINS}
    wanted = {_JOINS[i] for i in map(operator_id, uids) if i in _JOINS}
    if found and wanted and not found & wanted:
        raise DeployError(
            f"Savepoint {savepoint.path} was written with join.lookup_state = "
            f'"{found.pop()}", and the new version has "{wanted.pop()}": rows are kept in another '
            "way, and held events would be lost.",
            "Leave join.lookup_state as it was, or load the table anew with "
            "`tablegate upgrade --reload-table`.",
            Exit.REFUSED,
        )


# --------------------------------------------------------------------------------------- reading


def read(cluster: Cluster, path: str) -> Savepoint:
    """Read a savepoint or retained checkpoint, and look at each file that it names.

    Starts a JVM, which takes a few seconds.

    Raises:
        DeployError: there is none, or its `_metadata` cannot be read. Missing state files are in
            ``problems`` instead.
    """
    command = [str(VENV_PYTHON), "-m", "ops.deploy.savepoint_reader", path]
    try:
        done = subprocess.run(
            command,
            cwd=ROOT,
            env={**os.environ, **cluster.environment},
            capture_output=True,
            text=True,
            timeout=_READ_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise DeployError(
            f"Reading savepoint {path} was not done after {_READ_TIMEOUT_S} s.",
            "Is its store reachable from here?",
        ) from error
    lines = done.stdout.strip().splitlines()
    try:
        answer: dict[str, Any] = json.loads(lines[-1])
    except (IndexError, ValueError) as error:
        raise DeployError(
            f"The reader of savepoint {path} ended with {done.returncode}:\n{done.stderr[-2000:]}",
            "Is there a Flink in FLINK_HOME?",
        ) from error
    return _parsed(path, answer)


def _parsed(path: str, answer: Mapping[str, Any]) -> Savepoint:
    if "unreadable" in answer:
        raise DeployError(
            f"Savepoint {path} cannot be read ({path.rstrip('/')}/_metadata): "
            f"{str(answer['unreadable']).rstrip('.')}.",
            WAY_OUT,
            Exit.REFUSED,
        )
    return Savepoint(
        path=path,
        modified_ms=int(answer["modified_ms"]),
        operators=tuple(
            OperatorState(**{**operator, "splits": tuple(operator["splits"])})
            for operator in answer["operators"]
        ),
        files=int(answer["files"]),
        problems=tuple(FileProblem(**problem) for problem in answer["problems"]),
    )


def is_local_file(path: str) -> bool:
    """Whether the path names a file of some machine's own disk, rather than a shared store."""
    return path.startswith("file:") or not _SCHEME.match(path)


def local_path(path: str) -> str:
    """A local savepoint's path without its scheme."""
    return re.sub(r"^file:(//)?(?=/)", "", path)


def expired_tombstones(taken_ms: int, now_ms: int, delete_retention_ms: int) -> str:
    """A warning when rows deleted since the savepoint may have lost their tombstones; else "".

    Args:
        taken_ms: when the savepoint was taken, milliseconds since the epoch.
        now_ms: the same for now.
        delete_retention_ms: how long the table topic keeps a tombstone, ``delete.retention.ms``.
    """
    age_ms = now_ms - taken_ms
    if age_ms <= delete_retention_ms:
        return ""
    return (
        f"the savepoint is {age_ms / 3_600_000:.1f} h old, and the table topic keeps tombstones "
        f"for {delete_retention_ms / 3_600_000:.1f} h (delete.retention.ms): rows that were "
        "deleted meanwhile may stay in the state for ever"
    )
