"""The smoke job's function, in its own module: what stands in the entry is pickled by value."""

from collections.abc import Iterator
from typing import Any

from pyflink.common import Row, Types
from pyflink.datastream import KeyedProcessFunction, RuntimeContext
from pyflink.datastream.state import ValueStateDescriptor


class Count(KeyedProcessFunction):
    """Counts the records of a key in keyed state."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self._count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Row, _ctx: Any) -> Iterator[Row]:
        count = (self._count.value() or 0) + 1
        self._count.update(count)
        yield Row(value[0], count)
