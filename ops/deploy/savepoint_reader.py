"""Reads a savepoint with Flink's own classes and prints what stands in it, as JSON.

    python -m ops.deploy.savepoint_reader PATH

A process of its own: it starts a JVM, which a command that answers in milliseconds otherwise
should not keep. ``FLINK_HOME`` and ``FLINK_CONF_DIR`` decide which Flink reads, and with which file
systems.
Exits with 0 and one JSON object on the last line; a savepoint that cannot be read is an answer too.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_CONFIG = "config.yaml"
_WRAPPERS = (
    "KeyGroupsStateHandle",
    "KeyGroupsSavepointStateHandle",
    "OperatorStreamStateHandle",
    "FileMergingOperatorStreamStateHandle",
)
_STREAM_STATES = ("FileStateHandle", "RelativeFileStateHandle")
# State of a source's reader: one entry for each partition (SourceOperator.SPLITS_STATE_DESC).
_SPLITS = "SourceReaderState"


class _Reader:
    def __init__(self, gateway: Any, path: str) -> None:
        self._jvm = gateway.jvm
        self._path = path
        self._checked: set[str] = set()
        self.problems: list[dict[str, str]] = []
        self.files = 0
        self._configure_file_systems()

    def _configure_file_systems(self) -> None:
        # A savepoint may lie in a store that only a plugin of the Flink home can read.
        flink = self._jvm.org.apache.flink
        conf_dir = os.environ.get("FLINK_CONF_DIR", "")
        load = flink.configuration.GlobalConfiguration.loadConfiguration
        configuration = load(conf_dir) if Path(conf_dir, _CONFIG).exists() else load()
        plugins = flink.core.plugin.PluginUtils.createPluginManagerFromRootFolder(configuration)
        flink.core.fs.FileSystem.initialize(configuration, plugins)

    def read(self) -> dict[str, Any]:
        java, flink = self._jvm.java, self._jvm.org.apache.flink
        folder = flink.core.fs.Path(self._path)
        metadata = folder
        files = folder.getFileSystem()
        if files.getFileStatus(folder).isDir():
            metadata = flink.core.fs.Path(folder, "_metadata")
        status = files.getFileStatus(metadata)
        loader = java.lang.Thread.currentThread().getContextClassLoader()
        with_stream = java.io.DataInputStream(files.open(metadata))
        try:
            loaded = flink.runtime.checkpoint.Checkpoints.loadCheckpointMetadata(
                with_stream, loader, metadata.getParent().toString()
            )
        finally:
            with_stream.close()
        operators = [self._operator(state) for state in loaded.getOperatorStates().toArray()]
        return {
            "checkpoint_id": loaded.getCheckpointId(),
            "modified_ms": status.getModificationTime(),
            "operators": operators,
            "files": self.files,
            "problems": self.problems,
        }

    def _operator(self, state: Any) -> dict[str, Any]:
        stateful = state.getCoordinatorState() is not None
        splits: list[str] = []
        for subtask in state.getSubtaskStates().values():
            stateful = stateful or subtask.hasState()
            for handle in _handles(subtask):
                self._check(handle)
            splits += self._splits(subtask)
        return {
            "id": state.getOperatorID().toString(),
            "uid": state.getOperatorUid().orElse(""),
            "name": state.getOperatorName().orElse(""),
            "parallelism": state.getParallelism(),
            "max_parallelism": state.getMaxParallelism(),
            "stateful": stateful,
            "splits": splits,
        }

    # ------------------------------------------------------------------------------ files

    def _check(self, handle: Any) -> None:
        kind = handle.getClass().getSimpleName()
        if kind == "IncrementalRemoteKeyedStateHandle":
            self._check(handle.getMetaDataStateHandle())
            for shared in (handle.getSharedState(), handle.getPrivateState()):
                for entry in shared.toArray():
                    self._check(entry.getHandle())
        elif kind in _WRAPPERS:
            self._check(handle.getDelegateStateHandle())
        elif kind in _STREAM_STATES:
            self._check_file(handle.getFilePath(), handle.getStateSize(), exact=True)
        elif kind == "SegmentFileStateHandle":
            end = handle.getStartPos() + handle.getStateSize()
            self._check_file(handle.getFilePath(), end, exact=False)
        elif kind == "InputStateHandle":
            self._check(handle.getDelegate())
        # What is left holds its bytes in _metadata itself, which has been read by now.

    def _check_file(self, path: Any, size: int, *, exact: bool) -> None:
        name = path.toString()
        if name in self._checked:
            return
        self._checked.add(name)
        self.files += 1
        try:
            found = path.getFileSystem().getFileStatus(path).getLen()
        except Exception as error:  # noqa: BLE001  (whatever its file system says, it is not there)
            self.problems.append({"file": name, "problem": _cause(error)})
            return
        if found < size or (exact and found != size):
            self.problems.append(
                {"file": name, "problem": f"it has {found} bytes, expected {size}"}
            )

    def _is_missing(self, handle: Any) -> bool:
        if handle.getClass().getSimpleName() not in _STREAM_STATES:
            return False
        name = handle.getFilePath().toString()
        return any(problem["file"] == name for problem in self.problems)

    # ------------------------------------------------------------------------------ offsets

    def _splits(self, subtask: Any) -> list[str]:
        """The splits of a source's reader, each as hexadecimal bytes."""
        found = []
        for handle in subtask.getManagedOperatorState().toArray():
            states = handle.getStateNameToPartitionOffsets()
            if not states.containsKey(_SPLITS):
                continue
            if self._is_missing(handle.getDelegateStateHandle()):
                continue
            stream = handle.openInputStream()
            content = bytes(stream.readAllBytes())
            stream.close()
            for offset in states.get(_SPLITS).getOffsets():
                size = int.from_bytes(content[offset : offset + 4], "big")
                found.append(content[offset + 4 : offset + 4 + size].hex())
        return found


def _handles(subtask: Any) -> Iterator[Any]:
    for states in (
        subtask.getManagedKeyedState(),
        subtask.getRawKeyedState(),
        subtask.getManagedOperatorState(),
        subtask.getRawOperatorState(),
    ):
        yield from states.toArray()


def _cause(error: Exception) -> str:
    java = getattr(error, "java_exception", None)
    text = str(java.toString()) if java is not None else str(error)
    return text.partition("\n")[0]


def main() -> None:
    """Entry point."""
    # Imported here: a second that the parent, which imports this file's name only, need not wait.
    from pyflink.java_gateway import get_gateway  # noqa: PLC0415

    gateway = get_gateway()
    try:
        answer = _Reader(gateway, sys.argv[1]).read()
    except Exception as error:  # noqa: BLE001  (said in the answer; the parent writes the error)
        answer = {"unreadable": _cause(error)}
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()
    gateway.shutdown()


if __name__ == "__main__":
    main()
