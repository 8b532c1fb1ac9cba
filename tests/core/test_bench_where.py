"""Stacks of a profile as shares."""

from __future__ import annotations

import pytest

from bench.where_model import by_thread, by_what, markdown, stacks

JOIN = "[gated join (1/1)#0 tid=71]"
PROFILE = "\n".join(
    (
        f"{JOIN};Task.run;pemja/core/PythonInterpreter.invokeMethod;_PyEval_EvalFrameDefault 30",
        f"{JOIN};Task.run;pemja.invoke;_PyEval_EvalFrameDefault;pyjmethod_call;RocksDB.get 20",
        f"{JOIN};Task.run;pemja.invoke;JcpPyObject_FromJObject;JcpPyTuple_FromJObjectArray 10",
        f"{JOIN};Task.run;pemja.invoke;_PyEval_EvalFrameDefault;json_decode 5",
        "[C2 CompilerThread0 tid=12];CompileBroker::compiler_thread_loop 35",
    )
)


def test_what_stands_innermost_says_what_a_stack_is() -> None:
    assert by_what(stacks(PROFILE)) == {
        "JIT compilers": 0.35,
        "Python, all else": 0.3,
        "RocksDB": 0.2,
        "records to Python": 0.1,
        "Python, JSON": 0.05,
    }


def test_threads_that_differ_by_their_numbers_are_one() -> None:
    more = PROFILE + "\n[gated join (2/2)#3 tid=99];Task.run 100"
    assert by_thread(stacks(more)) == {"gated join": 0.825, "C CompilerThread": 0.175}


def test_what_is_no_profile_is_refused() -> None:
    with pytest.raises(ValueError, match="invalid literal"):
        stacks("Profiling started")


def test_an_empty_profile_has_no_shares() -> None:
    assert by_what([]) == {}


def test_the_page_divides_the_measured_time_by_the_shares() -> None:
    phase = {
        "name": "join, gate open",
        "rate": 21_000.0,
        "cpu_us": 40.0,
        "worker_us": 0.5,
        "what": by_what(stacks(PROFILE)),
        "threads": by_thread(stacks(PROFILE)),
    }
    told = {
        "date": "2026-11-30",
        "cores": 2,
        "load_average": 0.1,
        "versions": {"flink": "2.3.0"},
        "rows": 1_000,
        "row_bytes": 500,
        "events": 1_000,
        "state": "rocksdb",
        "phases": [phase],
    }
    page = markdown(told)
    assert "| RocksDB | 8.0 | 20% |" in page
    assert "| `gated join` | 26.0 | 65% |" in page
