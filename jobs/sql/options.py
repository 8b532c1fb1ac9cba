"""Values of the planner's settings, read before somebody needs them.

``TableConfig`` takes any text for any name, and reads it when it plans, or never.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from py4j.protocol import Py4JError
from pyflink.java_gateway import get_gateway
from pyflink.util.exceptions import JavaException
from pyflink.util.java_utils import load_java_class

_HOLDERS = (
    "org.apache.flink.table.api.config.ExecutionConfigOptions",
    "org.apache.flink.table.api.config.OptimizerConfigOptions",
    "org.apache.flink.table.api.config.TableConfigOptions",
    "org.apache.flink.configuration.PipelineOptions",
    "org.apache.flink.configuration.ExecutionOptions",
    "org.apache.flink.configuration.CheckpointingOptions",
    "org.apache.flink.python.PythonOptions",
)
_OPTION = "org.apache.flink.configuration.ConfigOption"


def can_be_read(name: str, value: str) -> bool:
    """Whether Flink can read ``value`` as what ``name`` is; True of a name that is not known."""
    option = _options().get(name)
    if option is None:
        return True
    configuration = get_gateway().jvm.org.apache.flink.configuration.Configuration()
    configuration.setString(name, value)
    try:
        configuration.get(option)
    except (Py4JError, JavaException):
        return False
    return True


@cache
def _options() -> Mapping[str, Any]:
    found = {}
    for holder in _HOLDERS:
        for field in load_java_class(holder).getFields():
            if field.getType().getName() == _OPTION:
                option = field.get(None)
                found[option.key()] = option
    return found
