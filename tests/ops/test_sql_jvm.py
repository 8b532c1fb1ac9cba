"""Flink's client is started as `flink run` starts a job of ours."""

from __future__ import annotations

from pathlib import Path

import pytest

from ops.cluster import RemoteCluster
from ops.flink_run import arguments
from ops.paths import UDFS_ZIP
from ops.sql.jvm import command


@pytest.mark.parametrize(
    ("url", "port"), [("http://flink:9999", "9999"), ("http://flink/", "8081")]
)
def test_the_client_gets_the_address_that_was_asked_for(url: str, port: str) -> None:
    line = command(RemoteCluster(url, home=Path("/flink")))
    assert line[:2] == ["/flink/bin/flink", "run"]
    assert {"-Drest.address=flink", f"-Drest.port={port}"} <= set(line)


def test_workers_get_the_python_that_a_submitted_job_gets() -> None:
    line, submitted = command(RemoteCluster("http://f", home=Path("/f"))), arguments()
    for option in ("-pyexec", "-pyfs"):
        assert line[line.index(option) + 1] == submitted[submitted.index(option) + 1]
    mine = command(RemoteCluster("http://f", home=Path("/f")), [Path("/a.py")])
    assert f"{UDFS_ZIP},/a.py" in mine
