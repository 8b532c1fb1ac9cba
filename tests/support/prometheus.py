"""A real Prometheus for the tests, and the project's rules on a faster clock."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import requests
import yaml

from ops import prometheus
from ops.paths import MONITORING
from ops.stack.ports import free_ports
from ops.stack.processes import ProcessSet, tail, wait_until

RULES = MONITORING / "rules" / "tablegate.yml"
CONFIG = MONITORING / "prometheus.yml"

_NAME = "prometheus"
_READY_S = 30.0
_UNIT_MS = {
    "ms": 1,
    "s": 1_000,
    "m": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
    "w": 604_800_000,
}
_DURATION = re.compile(r"(\d+)(ms|[smhdw])")
# Where PromQL has a duration: a range, or behind `offset`. Names of series (`ratio10m`) have none.
_IN_PROMQL = re.compile(r"(\[|\boffset )(\d+(?:ms|[smhdw]))")
_OF_RULES = ("interval", "for", "keep_firing_for")


def program(name: str) -> Path:
    """`prometheus` or `promtool`; the test is skipped where there is none, and fails in CI."""
    try:
        return prometheus.program(name)
    except prometheus.UnavailableError as error:
        if os.environ.get("CI") == "true":
            pytest.fail(f"CI skips none. {error}")
        pytest.skip(str(error))


def promtool(*arguments: str | Path) -> str:
    """What `promtool` says; the test fails with that when it says no."""
    command = [str(program("promtool")), *(str(argument) for argument in arguments)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


# ----------------------------------------------------------------------------------- a faster clock


def shorter(duration: str, factor: float) -> str:
    """A duration of Prometheus, ``factor`` times shorter: (`10m`, 30) is `20s`.

    Raises ValueError when it is not one number with one unit, or would be under a millisecond.
    """
    ms = _milliseconds(duration) / factor
    if ms < 1:
        raise ValueError(f"{duration} / {factor:g} is less than a millisecond")
    whole = round(ms)
    return f"{whole // 1_000}s" if whole % 1_000 == 0 else f"{whole}ms"


def _milliseconds(duration: str) -> int:
    match = _DURATION.fullmatch(duration)
    if match is None:
        raise ValueError(f"{duration!r} is not one number with one unit")
    return int(match[1]) * _UNIT_MS[match[2]]


def faster_promql(expr: str, factor: float) -> str:
    """The expression with every range and offset ``factor`` times shorter."""
    return _IN_PROMQL.sub(lambda match: match[1] + shorter(match[2], factor), expr)


def faster_rules(text: str, factor: float) -> str:
    """A file of rules in which everything happens ``factor`` times faster.

    Intervals, `for`, ranges and offsets; thresholds, such as seconds of lag, stay.
    """
    rules = yaml.safe_load(text)
    for group in rules["groups"]:
        for part in (group, *group["rules"]):
            for key in _OF_RULES:
                if key in part:
                    part[key] = shorter(part[key], factor)
            if "expr" in part:
                part["expr"] = faster_promql(part["expr"], factor)
    written: str = yaml.safe_dump(rules, sort_keys=False, width=10_000)
    return written


def faster_config(text: str, factor: float, *, rules: Path, targets: Path) -> str:
    """The scrape configuration likewise, with other files of rules and of targets.

    Not more often than each second: a TaskManager takes a good part of one to answer.
    """
    config = yaml.safe_load(text)
    every = config["global"]["scrape_interval"]
    interval = shorter(every, min(factor, _milliseconds(every) / 1_000))
    config["global"] = {"scrape_interval": interval, "scrape_timeout": interval}
    config["rule_files"] = [str(rules)]
    (job,) = config["scrape_configs"]
    job["file_sd_configs"] = [{"files": [str(targets)]}]
    written: str = yaml.safe_dump(config, sort_keys=False)
    return written


# ------------------------------------------------------------------------------------ the real one


@dataclass(frozen=True)
class Sample:
    """One series of an answer, with its newest value."""

    labels: Mapping[str, str]
    value: float


class Prometheus:
    """One that runs on a free port, with the project's configuration and rules, faster.

    Args:
        folder: takes its data, its log and the generated files.
        targets: the stack's file of targets.
        factor: how many times faster than in production the rules and the scrapes are.
    """

    def __init__(self, folder: Path, targets: Path, factor: float) -> None:
        self.folder = folder
        self.factor = factor
        self.url = ""
        self._targets = targets
        self._processes = ProcessSet(folder)

    def start(self) -> None:
        """Start it and return when it answers."""
        executable = program("prometheus")
        self.folder.mkdir(parents=True, exist_ok=True)
        rules, config = self.folder / "rules.yml", self.folder / "prometheus.yml"
        rules.write_text(faster_rules(RULES.read_text(), self.factor))
        config.write_text(
            faster_config(CONFIG.read_text(), self.factor, rules=rules, targets=self._targets)
        )
        (port,) = free_ports(1)
        self.url = f"http://127.0.0.1:{port}"
        log = self.folder / "prometheus.log"
        command = (
            str(executable),
            f"--config.file={config}",
            f"--storage.tsdb.path={self.folder / 'data'}",
            f"--web.listen-address=127.0.0.1:{port}",
            # How long a value counts that is not said again: five minutes, faster.
            f"--query.lookback-delta={shorter('5m', self.factor)}",
        )
        self._processes.spawn(_NAME, command, log=log, env={})
        wait_until(
            self._ready,
            deadline_s=_READY_S,
            what="Prometheus",
            give_up=lambda: None if self._processes.alive(_NAME) else tail(log),
        )

    def stop(self) -> None:
        """Stop it."""
        self._processes.stop()

    def query(self, expr: str) -> list[Sample]:
        """The expression's value now; fails where it does not parse."""
        answer = self._get("/api/v1/query", query=expr)
        found = answer["data"]["result"]
        return [Sample(entry["metric"], float(entry["value"][1])) for entry in found]

    def value(self, expr: str) -> float | None:
        """Of an expression with one series at most."""
        found = self.query(expr)
        assert len(found) <= 1, found
        return found[0].value if found else None

    def fired(self, over_s: float) -> set[str]:
        """Names of the alerts that fired at any time in the last ``over_s`` seconds."""
        window = f"{max(1, round(over_s))}s"
        found = self.query(f'max_over_time(ALERTS{{alertstate="firing"}}[{window}])')
        return {sample.labels["alertname"] for sample in found}

    def wait_until(self, met: Callable[[], bool], what: str, deadline_s: float) -> None:
        """Poll until ``met``."""
        end = time.monotonic() + deadline_s
        while not met():
            assert time.monotonic() < end, f"not within {deadline_s:.0f} s: {what}"
            time.sleep(0.25)

    def _get(self, path: str, **parameters: str) -> Any:
        answer = requests.get(self.url + path, params=parameters, timeout=10)
        assert answer.ok, f"{parameters}: {answer.text}"
        return answer.json()

    def _ready(self) -> bool:
        try:
            return requests.get(f"{self.url}/-/ready", timeout=2).ok
        except requests.RequestException:
            return False


@contextmanager
def watching(folder: Path, targets: Path, factor: float) -> Iterator[Prometheus]:
    """A Prometheus that reads the targets, until the end of the block."""
    running = Prometheus(folder, targets, factor)
    running.start()
    try:
        yield running
    finally:
        running.stop()
