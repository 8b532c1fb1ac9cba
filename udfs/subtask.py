"""What a join whose table is broadcast has to know of its subtask, asked of Flink in the JVM.

PyFlink 2.3.0 gives a function whose second input is broadcast no way to the state and the timers of
a key when a record of that input comes, nor says which keys are the subtask's own. In thread mode
the objects behind PyFlink's have all that. In worker processes they are out of reach: there the
join refuses to start.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyflink.datastream.functions import RuntimeContext
from pyflink.datastream.state import MapStateDescriptor

from udfs.core.errors import WorkerError
from udfs.crossing import Contexts, take_over_broadcast


class JvmSubtask:
    """The subtask in whose JVM this runs. For its members see ``udfs.broadcast.Subtask``."""

    crosses = True

    def __init__(self, runtime_context: RuntimeContext, contexts: Contexts) -> None:
        from pemja import findClass  # noqa: PLC0415  (there is none outside thread mode)
        from pyflink.fn_execution.embedded.state_impl import (  # noqa: PLC0415  (likewise)
            JVoidNamespace_INSTANCE,
        )

        self.context = contexts.keyed
        self._broadcast = contexts.broadcast
        self._namespace = JVoidNamespace_INSTANCE
        self._backend = runtime_context.get_keyed_state_backend()._keyed_state_backend  # noqa: SLF001
        self._row = findClass("org.apache.flink.types.Row")
        self._assignment = findClass("org.apache.flink.runtime.state.KeyGroupRangeAssignment")
        self._own, self._groups = (
            self._backend.getKeyGroupRange(),
            self._backend.getNumberOfKeyGroups(),
        )
        runtime = findClass("java.lang.Runtime").getRuntime()
        self.heap_bytes = int(runtime.maxMemory())

    def broadcast_state(self, descriptor: MapStateDescriptor) -> Any:
        return self._broadcast.get_broadcast_state(descriptor)._state  # noqa: SLF001

    def entries(self, descriptor: MapStateDescriptor) -> int:
        return int(self.broadcast_state(descriptor).entries().size())

    def keys_with(self, state: str) -> Iterator[str]:
        keys = self._backend.getKeys(state, self._namespace)
        try:
            iterator = keys.iterator()
            while iterator.hasNext():
                yield iterator.next().getField(0)
        finally:
            keys.close()

    def take(self, key: str) -> None:
        self._backend.setCurrentKey(self._key(key))

    def owns(self, routed: str) -> bool:
        group = self._assignment.assignToKeyGroup(self._key(routed), self._groups)
        return bool(self._own.contains(group))

    def _key(self, text: str) -> Any:
        # As jobs.sides.keyed makes it. A new one each time: a timer keeps it.
        key = self._row.withPositions(1)
        key.setField(0, text)
        return key


def look_around(runtime_context: RuntimeContext) -> JvmSubtask:
    """To be called in ``open`` of a function whose second input is broadcast, which it takes over.

    Raises WorkerError where PyFlink is not as it is known.
    """
    contexts = take_over_broadcast()
    if contexts is None:
        raise WorkerError(
            'join.lookup_state = "broadcast" needs PyFlink 2.3.0 in thread mode, and this worker '
            "is another.",
            "Set python.execution-mode: thread in the cluster's configuration, or "
            'join.lookup_state = "keyed" and load the table anew.',
        )
    return JvmSubtask(runtime_context, contexts)
