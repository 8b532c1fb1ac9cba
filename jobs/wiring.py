"""Gives the planner's operators what only explicit code can give: uid, name and parallelism."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from jobs.uids import Operator

# Transformations that only connect others: they become edges, not operators, and hold no state.
_EDGES = frozenset({"PartitionTransformation", "UnionTransformation", "SideOutputTransformation"})


def adopt(
    transformation: Any,
    operators: Sequence[Operator],
    parallelism: int | None = None,
    free: Sequence[Operator] = (),
) -> None:
    """Name the operators from ``transformation`` upstream that have no uid yet.

    ``operators`` come in the order of the walk: each operator before its inputs, these in their
    order; behind them come those that are ``free``. ``parallelism``, where given, is pinned for
    all that are not free: left alone, planner-made operators take the job's default when the graph
    is finished.

    Raises RuntimeError when the planner made other operators than ``operators`` lists: the uids
    would go to the wrong ones, and a savepoint's state with them.
    """
    found = list(_unnamed(transformation, set()))
    listed = (*operators, *free)
    if len(found) != len(listed):
        made = [f"{one.getClass().getSimpleName()} {one.getName()}" for one in found]
        raise RuntimeError(
            f"the planner made {len(found)} operators where jobs/uids.py lists {len(listed)}: "
            f"{made}"
        )
    for operator, one in zip(listed, found, strict=True):
        one.setUid(operator.uid)
        one.setName(operator.name)
        one.setDescription(operator.name)
        if parallelism is not None and operator not in free:
            one.setParallelism(parallelism)
            # Who rescales a running job, an autoscaler say, is refused here: two gates would each
            # wait for the partitions of the other.
            one.setMaxParallelism(parallelism)


def _unnamed(transformation: Any, seen: set[int]) -> Iterator[Any]:
    if transformation.getId() in seen or transformation.getUid() is not None:
        return
    seen.add(transformation.getId())
    if transformation.getClass().getSimpleName() not in _EDGES:
        yield transformation
    for source in transformation.getInputs():
        yield from _unnamed(source, seen)
