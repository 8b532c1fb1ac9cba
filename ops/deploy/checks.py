"""What is looked at before anything is touched: each check with its verdict and its remedy."""

from __future__ import annotations

import importlib.metadata
import json
import re
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from jobs.clients import librdkafka_config
from jobs.preflight import ClusterFacts, inspect
from jobs.settings import Settings
from ops.cluster import Cluster, ask, on_this_host
from ops.deploy import savepoints
from ops.deploy.errors import DeployError, Exit
from ops.deploy.savepoints import Savepoint
from udfs.core.errors import ConfigError, PreflightError, TargetError
from udfs.targets import TargetResolver

# What `udfs` imports on the workers; everything else of ours runs on the client.
WORKER_PACKAGES = ("apache-flink", "confluent-kafka", "msgspec")
_THREAD_PACKAGE = "pemja"
_CONNECTOR = "flink-sql-connector-kafka-"
_PYTHON_JAR = "flink-python-"
_VERSION = re.compile(r"(\d+\.\d+)")
_PYTHON_TIMEOUT_S = 60


class Verdict(StrEnum):
    """What a check found."""

    OK = "ok"
    WARN = "warn"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Check:
    """One check's result; ``remedy`` says what to do unless it is ok."""

    name: str
    verdict: Verdict
    found: str
    remedy: str = ""


def ok(name: str, found: str) -> Check:
    """Nothing to do."""
    return Check(name, Verdict.OK, found)


def warn(name: str, found: str, remedy: str = "") -> Check:
    """Goes on, but somebody should know."""
    return Check(name, Verdict.WARN, found, remedy)


def refused(name: str, found: str, remedy: str) -> Check:
    """Nothing is touched."""
    return Check(name, Verdict.REFUSED, found, remedy)


# ---------------------------------------------------------------------------------- decisions


def jars(classpath: Sequence[str], flink_version: str) -> Iterator[Check]:
    """Whether the JobManager has the jars that every node needs in its lib.

    Args:
        classpath: the JobManager's, as `/jobmanager/environment` lists it.
        flink_version: the version that our flink-python has, e.g. "2.3.0".
    """
    names = [Path(entry).name for entry in classpath]
    wanted = {_CONNECTOR: "the Kafka connector of pom.xml", _PYTHON_JAR: "out of Flink's opt/"}
    for prefix, source in wanted.items():
        found = sorted({name for name in names if name.startswith(prefix)})
        title = "jar " + prefix.rstrip("-")
        if not found:
            yield refused(
                title,
                f"none in the JobManager's lib ({len(names)} jars there)",
                f"Put {prefix}*.jar ({source}) into lib/ of every node, and restart them.",
            )
        elif len(found) > 1:
            yield warn(
                title,
                f"several: {', '.join(found)}",
                "Keep one: classes that are loaded twice cannot be cast.",
            )
        elif prefix == _PYTHON_JAR and flink_version not in found[0]:
            yield refused(title, found[0], f"Put {prefix}{flink_version}.jar there instead.")
        else:
            yield ok(title, f"{found[0]} (the JobManager's; TaskManagers do not tell theirs)")


def flink_version(theirs: str, ours: str) -> Check:
    """Whether the cluster's Flink is of the minor version that ours was built for."""
    minor = [match[1] if (match := _VERSION.match(text)) else text for text in (theirs, ours)]
    if minor[0] != minor[1]:
        return refused(
            "Flink", f"the cluster runs {theirs}, expected {minor[1]}", f"Use a Flink {ours}."
        )
    return ok("Flink", theirs)


def slots(free: int, needed: int, *, beside: bool) -> Check:
    """Whether there is room. ``beside``: the old job keeps its slots meanwhile."""
    if free >= needed:
        return ok("slots", f"{free} free, {needed} needed")
    found = f"{free} free, {needed} needed"
    if beside:
        return refused(
            "slots", found, "Add TaskManagers: old and new run side by side for a while."
        )
    return warn("slots", found, "The job waits until there are enough. Add TaskManagers.")


def worker_python(found: Mapping[str, str | None], wanted: Mapping[str, str]) -> Check:
    """Whether the workers' interpreter has our packages in our versions.

    Args:
        found: version by package, None where it is not installed; "python" its own version.
        wanted: the same for what runs here.
    """
    wrong = [
        f"{name} {found.get(name) or 'is missing'} (expected {version})"
        for name, version in wanted.items()
        if found.get(name) != version
    ]
    if wrong:
        return refused(
            "worker Python",
            "; ".join(wrong),
            "Install the packages of requirements.lock there, on every worker.",
        )
    return ok("worker Python", ", ".join(f"{name} {version}" for name, version in found.items()))


def delivery(settings: Settings, facts: ClusterFacts) -> Check:
    """What the transaction timeout allows for. `inspect` has refused one above the brokers' limit.

    Between the savepoint of the old version and the start of the new one nobody commits.
    """
    job = settings.job
    if not job.exactly_once:
        return ok("transactions", "none: at-least-once")
    limit = facts.transaction_max_timeout_ms
    return ok(
        "transactions",
        f"timeout {job.transaction_timeout_ms} ms, the brokers allow {limit} ms; what a job that "
        "is away for longer had not committed is lost",
    )


def code_in_memory(before: str, after: str, *, restart: bool, thread_mode: bool) -> Check:
    """Whether TaskManagers that ran the version before take this one.

    Args:
        before: digest of what the running version's workers have loaded; "" for none.
        after: the same for the new one.
        restart: whether the TaskManagers are restarted in between.
        thread_mode: in process mode each job has interpreters of its own.
    """
    if not before or before == after or not thread_mode:
        return ok("code in memory", "the same" if before == after else "nothing in the way")
    if restart:
        return ok("code in memory", "new: the TaskManagers are restarted in between")
    return refused(
        "code in memory",
        "the workers' code changed, and in thread mode a TaskManager keeps what it has loaded",
        "Give --restart-workers COMMAND, which restarts them between the two versions, or "
        "--fresh-workers when the new version gets TaskManagers of its own.",
    )


# -------------------------------------------------------------------------------------- asking


def topics(settings: Settings) -> tuple[list[Check], ClusterFacts | None]:
    """The brokers' topics against the settings, and the facts unless they were refused."""
    try:
        facts = inspect(settings)
    except PreflightError as error:
        return [refused("topics", error.what.rstrip("\n"), error.remedy)], None
    except ConfigError as error:
        return [refused("topics", f"{error.key} = {error.value!r}", error.remedy)], None
    names = [topic.name for topic in (facts.stream, facts.table, *facts.written)]
    found = [ok("topics", f"{', '.join(names)} on cluster {facts.cluster_id}")]
    found += [warn("topics", warning) for warning in facts.warnings]
    return [*found, delivery(settings, facts)], facts


# What the state of a job is laid out by, or belongs to (docs/operations.md).
_STATE_SETTINGS = (
    "stream.topic",
    "stream.key",
    "table.topic",
    "table.key",
    "table.tombstone_key",
    "table.format",
    "table.isolation_level",
)


def same_state(old: Settings, new: Settings) -> Check:
    """Whether the two versions' settings agree in what their state belongs to."""
    changed = []
    for name in _STATE_SETTINGS:
        table, setting = name.split(".")
        if getattr(getattr(old, table), setting) != getattr(getattr(new, table), setting):
            changed.append(name)
    if not changed:
        return ok("state", "of the same topics, keys and formats")
    return refused(
        "state",
        f"{', '.join(changed)} differ from the current version's, and its state belongs to that",
        "Load the table anew with --reload-table.",
    )


def transactions(settings: Settings) -> list[Check]:
    """Unfinished transactions at the table's end, for which the new version's gate would wait."""
    table = settings.table
    try:
        with TargetResolver(
            librdkafka_config(settings), table.topic, table.isolation_level
        ) as resolver:
            waiting = [p for p, target in resolver.resolve().items() if target.waiting]
    except TargetError as error:
        return [warn("transactions", error.what, error.remedy)]
    if not waiting:
        return []
    return [
        warn(
            "transactions",
            f"one is unfinished in {table.topic}{waiting}: the new version waits for its end, and "
            "the stream stands still meanwhile",
            "Wait until it ends, or look for a writer that hangs: kafka-transactions.sh "
            "find-hanging.",
        )
    ]


def cluster(where: Cluster) -> list[Check]:
    """The cluster's version and jars."""
    ours = importlib.metadata.version("apache-flink")
    version = str(ask(where, "GET", "/config")["flink-version"])
    environment = ask(where, "GET", "/jobmanager/environment")
    return [flink_version(version, ours), *jars(environment.get("classpath", ()), ours)]


def room(where: Cluster, needed: int, *, given_back: int, beside: bool) -> Check:
    """Free slots, with those that the old job gives back."""
    free = int(ask(where, "GET", "/overview")["slots-available"])
    return slots(free if beside else free + given_back, needed, beside=beside)


def python(where: Cluster, executable: str, *, thread_mode: bool) -> Check:
    """The workers' interpreter, as far as this machine can see it."""
    if not Path(executable).is_absolute() or not Path(executable).exists():
        if on_this_host(where):
            return refused(
                "worker Python",
                f"{executable} does not exist",
                "Correct python.executable in Flink's configuration, or --worker-python.",
            )
        return warn(
            "worker Python",
            f"{executable} is not on this machine, so its packages were not looked at",
            "Check on a worker: PYTHON -m pip list, against requirements.lock.",
        )
    names = (*WORKER_PACKAGES, _THREAD_PACKAGE) if thread_mode else WORKER_PACKAGES
    ours = {name: importlib.metadata.version(name) for name in names}
    program = (
        "import importlib.metadata as m, json, sys\n"
        "def v(n):\n"
        "    try: return m.version(n)\n"
        "    except m.PackageNotFoundError: return None\n"
        "print(json.dumps({n: v(n) for n in sys.argv[1:]}))"
    )
    try:
        done = subprocess.run(
            [executable, "-c", program, *names],
            capture_output=True,
            text=True,
            timeout=_PYTHON_TIMEOUT_S,
            check=False,
        )
        theirs: dict[str, str | None] = json.loads(done.stdout)
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        return refused(
            "worker Python",
            f"{executable} does not run: {type(error).__name__}",
            "Name a Python 3.11 with the packages of requirements.lock.",
        )
    return worker_python(theirs, ours)


def savepoint(
    where: Cluster, path: str, uids: Mapping[str, str], max_parallelism: int
) -> tuple[list[Check], Savepoint | None]:
    """Whether the savepoint is whole and the version can take it."""
    if savepoints.is_local_file(path) and not on_this_host(where):
        local = Path(savepoints.local_path(path))
        if not local.exists():
            return [
                warn(
                    "savepoint",
                    f"{path} is a file of another machine, so it was not looked at",
                    "Mount its folder here at the same path to have it checked.",
                )
            ], None
    try:
        found = savepoints.read(where, path)
    except DeployError as error:
        return [refused("savepoint", error.what, error.remedy)], None
    checks = [
        _as_check("savepoint", f"{path}, {found.files} files", savepoints.require_whole, found),
        _as_check(
            "uids",
            "all its state is taken",
            savepoints.require_compatible,
            found,
            uids,
            max_parallelism,
        ),
    ]
    return checks, found


def _as_check(name: str, fine: str, require: Callable[..., None], *arguments: Any) -> Check:
    try:
        require(*arguments)
    except DeployError as error:
        return refused(name, error.what.rstrip("\n"), error.remedy)
    return ok(name, fine)


def config_of(where: Cluster) -> dict[str, str]:
    """The cluster's configuration, as the JobManager tells it."""
    listed: Any = ask(where, "GET", "/jobmanager/config")
    return {str(entry["key"]): str(entry["value"]) for entry in listed}


def settled(found: Sequence[Check]) -> None:
    """Raises when a check refused.

    Raises:
        DeployError: with the names of the checks; their remedies have been printed.
    """
    names = [check.name for check in found if check.verdict is Verdict.REFUSED]
    if names:
        raise DeployError(
            f"Refused by {', '.join(names)}; nothing was touched.",
            "The remedies stand beside the checks.",
            Exit.REFUSED,
        )
