"""A Flink client in the test process, with the connector on its class path."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator

import pytest

from ops.paths import FLINK_HOME


@pytest.fixture(scope="session", autouse=True)
def flink_client() -> Iterator[None]:
    """Start PyFlink's JVM from the home that the set-up assembled, and end it."""
    os.environ["FLINK_HOME"] = str(FLINK_HOME)
    with warnings.catch_warnings():
        # Beam's dependencies warn while they are imported, and PyFlink drops the JVM's pipes
        # unclosed; neither says anything about us.
        warnings.simplefilter("ignore")
        from pyflink.fn_execution.beam import beam_worker_pool_service  # noqa: F401, PLC0415
        from pyflink.java_gateway import get_gateway  # noqa: PLC0415

        gateway = get_gateway()
    yield
    gateway.shutdown()
