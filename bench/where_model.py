"""Stacks of a profile as shares: by thread, and by what a record costs where. Values in and out."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from bench import page

_THREAD_ID = re.compile(r"\s*tid=\d+|\s*\(\d+/\d+\)#\d+|[-#]?\d+")
_NAME_LENGTH = 60

# The first that matches a stack says what it is; so the innermost come first.
_WHAT: Sequence[tuple[str, str]] = (
    ("RocksDB", r"rocksdb|RocksDB"),
    ("Kafka producer", r"KafkaWriter\.|KafkaProducer\."),
    ("Kafka consumer, decoding", r"KafkaSource|KafkaPartitionSplitReader|KafkaConsumer\."),
    ("JSON path in the JVM", r"SqlJsonUtils|jayway"),
    ("Java exceptions at the end of Python's iterators", r"ThrowNew|fillInStackTrace"),
    ("records to Python", r"_FromJObject|PythonTypeUtils\S*toExternal"),
    ("results to the JVM", r"_AsJObject|_AsJValue|PythonTypeUtils\S*toInternal"),
    ("Python, garbage collection", r"gc_collect_main"),
    ("Python, JSON", r"json_decode|JSONDecoder"),
    ("Python, calls of Java", r"pyjmethod_call|multi_method_call"),
    ("Python, all else", r"_PyEval_EvalFrameDefault"),
    ("PyFlink's operator, pemja", r"pemja|EmbeddedPython"),
    ("counts of verdicts and progress in SQL", r"SlicingWindow|ProcTimeUnbounded|Over"),
    ("Arrow and the gate's worker", r"Arrow|[Bb]eam|grpc"),
    ("SQL expressions", r"StreamExecCalc"),
    ("network, serialisers", r"RecordWriter|RowSerializer|StreamElementSerializer|Deserializer"),
    ("JIT compilers", r"CompileBroker|C[12]_|Compile::|Compilation"),
    ("garbage collection of the JVM", r"G1|Parallel|GangWorker|WorkerThread"),
)
_COMPILED = tuple((what, re.compile(pattern)) for what, pattern in _WHAT)
_OTHER = "all else"


class Stack(NamedTuple):
    """One stack of a collapsed profile, the thread first, and how often it was seen."""

    frames: tuple[str, ...]
    times: int


def stacks(collapsed: str) -> list[Stack]:
    """The lines of a profile. Raises ValueError for what is none."""
    found = []
    for line in collapsed.splitlines():
        frames, _, count = line.rpartition(" ")
        found.append(Stack(tuple(frames.split(";")), int(count)))
    return found


def by_thread(found: Iterable[Stack]) -> dict[str, float]:
    """Shares by thread, numbers taken out of their names, the largest first."""
    return _shares((_thread(stack), stack.times) for stack in found)


def by_what(found: Iterable[Stack]) -> dict[str, float]:
    """Shares by what is done, the largest first."""
    return _shares((_what(stack), stack.times) for stack in found)


def _thread(stack: Stack) -> str:
    name = _THREAD_ID.sub("", stack.frames[0].strip("[]")).strip()
    return name if len(name) <= _NAME_LENGTH else f"{name[:_NAME_LENGTH]}..."


def _what(stack: Stack) -> str:
    text = ";".join(stack.frames[1:])
    return next((what for what, pattern in _COMPILED if pattern.search(text)), _OTHER)


def _shares(counted: Iterable[tuple[str, int]]) -> dict[str, float]:
    total: Counter[str] = Counter()
    for name, count in counted:
        total[name] += count
    everything = total.total() or 1
    return {name: count / everything for name, count in total.most_common()}


def markdown(told: Mapping[str, Any]) -> str:
    """The page, from what the JSON file holds."""
    versions = ", ".join(f"{name} {number}" for name, number in told["versions"].items())
    parts = [
        "# Where the time goes",
        (
            f"`python -m bench.where`, {told['date']}, {told['cores']} cores (load average "
            f"{told['load_average']} when it began); {versions}. {told['rows']:,} rows of "
            f"{told['row_bytes']} bytes, {told['events']:,} events, {told['state']}, one subtask. "
            "CPU time of the TaskManager and its Python workers by the operating system, divided "
            "by the stacks of async-profiler; the start of the job is in the load's."
        ),
    ]
    for phase in told["phases"]:
        micros = phase["cpu_us"]
        rows = [
            (name, f"{share * micros:.1f}", f"{share:.0%}")
            for name, share in phase["what"].items()
            if share >= _SHOWN
        ]
        threads = [
            (f"`{name}`", f"{share * micros:.1f}", f"{share:.0%}")
            for name, share in phase["threads"].items()
            if share >= _SHOWN
        ]
        parts += [
            f"## {phase['name']}",
            (
                f"{phase['rate']:,.0f} records/s; a record costs {micros:.0f} µs in the "
                f"TaskManager and {phase['worker_us']:.1f} µs in the gate's worker."
            ),
            page.table(("what", "µs", "share"), rows),
            page.table(("thread", "µs", "share"), threads),
        ]
    return "\n\n".join(parts) + "\n"


_SHOWN = 0.01
