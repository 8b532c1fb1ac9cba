"""What the outputs together demand of a miss."""

from __future__ import annotations

import pytest

from udfs.core.misses import MissPolicy, OnMiss


@pytest.mark.parametrize(
    ("outputs", "policy"),
    [
        (["route"], MissPolicy()),
        (["route", "route"], MissPolicy()),
        (["route", "emit_null"], MissPolicy(emit_null=True)),
        (["emit_null"], MissPolicy(route=False, emit_null=True)),
        (["hold"], MissPolicy(route=False, hold=True)),
        (["emit_null", "hold"], MissPolicy(route=False, hold=True, emit_null=True)),
    ],
)
def test_each_output_has_its_say(outputs: list[str], policy: MissPolicy) -> None:
    assert MissPolicy.of(map(OnMiss, outputs)) == policy


def test_an_event_cannot_wait_and_go_away() -> None:
    with pytest.raises(ValueError, match="cannot wait in the job"):
        MissPolicy.of([OnMiss.HOLD, OnMiss.ROUTE])
