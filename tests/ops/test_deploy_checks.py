"""The pre-flight checks' verdicts."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from ops.cluster import RemoteCluster, choose, rest_url_of
from ops.deploy import checks
from ops.deploy.checks import Verdict, code_in_memory, flink_version, jars, slots, worker_python
from ops.deploy.errors import DeployError, Exit
from ops.stack.flink import FlinkCluster
from udfs.core.errors import StackError

CONNECTOR = "/lib/flink-sql-connector-kafka-5.0.0-2.2.jar"
PYTHON = "/lib/flink-python-2.3.0.jar"


@pytest.mark.parametrize(
    ("classpath", "verdicts"),
    [
        ([CONNECTOR, PYTHON], ["ok", "ok"]),
        ([PYTHON, "/lib/flink-connector-kafka-5.0.0-2.2.jar"], ["refused", "ok"]),
        ([CONNECTOR], ["ok", "refused"]),
        ([CONNECTOR, "/lib/flink-python-2.2.0.jar"], ["ok", "refused"]),
        ([CONNECTOR, "/usrlib/flink-sql-connector-kafka-4.0.jar", PYTHON], ["warn", "ok"]),
    ],
)
def test_the_jars(classpath: list[str], verdicts: list[str]) -> None:
    found = list(jars(classpath, "2.3.0"))
    assert [str(check.verdict) for check in found] == verdicts
    assert all(check.remedy for check in found if check.verdict is not Verdict.OK)


def test_flinks_minor_version_has_to_be_ours() -> None:
    assert flink_version("2.3.1", "2.3.0").verdict is Verdict.OK
    assert flink_version("2.2.0", "2.3.0").verdict is Verdict.REFUSED


def test_room_for_two_is_needed_only_beside_each_other() -> None:
    assert slots(1, 1, beside=True).verdict is Verdict.OK
    assert slots(0, 1, beside=True).verdict is Verdict.REFUSED
    assert slots(0, 1, beside=False).verdict is Verdict.WARN


def test_the_workers_packages_are_compared_by_version() -> None:
    wanted = {"msgspec": "0.23.0", "pemja": "0.5.7"}
    assert worker_python({"msgspec": "0.23.0", "pemja": "0.5.7"}, wanted).verdict is Verdict.OK
    wrong = worker_python({"msgspec": "0.1", "pemja": None}, wanted)
    assert wrong.verdict is Verdict.REFUSED
    assert wrong.found == "msgspec 0.1 (expected 0.23.0); pemja is missing (expected 0.5.7)"


def test_an_interpreter_is_asked_where_it_is_seen(tmp_path: Path) -> None:
    here = RemoteCluster("http://localhost:1", home=tmp_path)
    elsewhere = RemoteCluster("http://flink.example:1", home=tmp_path)
    assert checks.python(here, sys.executable, thread_mode=True).verdict is Verdict.OK
    assert checks.python(here, "/no/python", thread_mode=True).verdict is Verdict.REFUSED
    assert checks.python(elsewhere, "/no/python", thread_mode=True).verdict is Verdict.WARN
    broken = tmp_path / "python"
    broken.write_text("#!/bin/sh\nexit 3\n")
    broken.chmod(0o755)
    assert checks.python(here, str(broken), thread_mode=True).verdict is Verdict.REFUSED


def test_new_code_in_threads_needs_other_taskmanagers() -> None:
    for before, after, restart, thread_mode, verdict in [
        ("a", "a", False, True, Verdict.OK),
        ("", "b", False, True, Verdict.OK),
        ("a", "b", False, False, Verdict.OK),
        ("a", "b", True, True, Verdict.OK),
        ("a", "b", False, True, Verdict.REFUSED),
    ]:
        found = code_in_memory(before, after, restart=restart, thread_mode=thread_mode)
        assert found.verdict is verdict


def test_a_refused_check_stops_before_anything_is_touched() -> None:
    checks.settled([checks.ok("a", "x"), checks.warn("b", "x")])
    with pytest.raises(DeployError, match="Refused by c; nothing was touched") as caught:
        checks.settled([checks.ok("a", "x"), checks.refused("c", "x", "y")])
    assert caught.value.code is Exit.REFUSED


# --------------------------------------------------------------------------------------- cluster


def test_the_cluster_is_the_one_that_was_named_or_else_the_local_one(tmp_path: Path) -> None:
    named = choose("https://flink.example:8081/", None, {})
    assert isinstance(named, RemoteCluster)
    assert named.rest_url == "https://flink.example:8081"
    (tmp_path / "config.yaml").write_text("rest:\n  address: jm\n  port: 9000\n")
    configured = choose(None, None, {"FLINK_CONF_DIR": str(tmp_path)})
    assert configured.rest_url == "http://jm:9000"
    assert configured.environment["FLINK_CONF_DIR"] == str(tmp_path)
    local = choose(None, None, {})
    assert isinstance(local, FlinkCluster)
    assert isinstance(choose(None, None, {"FLINK_CONF_DIR": str(local.conf_dir)}), FlinkCluster)
    with pytest.raises(StackError, match="FLINK_CONF_DIR"):
        choose(None, None, {"FLINK_CONF_DIR": str(tmp_path / "none")})


def test_the_rest_address_of_a_configuration() -> None:
    assert rest_url_of({"rest.address": "a", "rest.port": 1}) == "http://a:1"
    assert rest_url_of({"rest": {"address": "a"}}) == "http://a:8081"
    with pytest.raises(StackError, match=r"rest\.address"):
        rest_url_of({})
