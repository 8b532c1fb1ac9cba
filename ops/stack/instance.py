"""What a cluster's configuration only knows of one instance: its ports and its folders."""

from pathlib import Path

from ops.stack.assemble import python_settings


class Folders:
    """Where an instance puts things, all below one folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.checkpoints = folder / "checkpoints"
        self.savepoints = folder / "savepoints"
        self.high_availability = folder / "high-availability"
        self.tmp = folder / "tmp"
        self.work = folder / "work"


def instance_settings(
    folders: Folders, *, rest: int, rpc: int, slots: int, quorum: str | None
) -> dict[str, object]:
    """Flink options of one instance, flat names to values.

    Args:
        folders: where it puts things.
        rest: port of the REST interface.
        rpc: port of the JobManager.
        slots: slots of each TaskManager.
        quorum: `host:port` of the ZooKeeper that its JobManagers are found by; None: there is none.
    """
    here = "127.0.0.1"
    settings: dict[str, object] = {
        **python_settings(),
        "rest.address": here,
        "rest.bind-address": here,
        "rest.port": rest,
        "jobmanager.rpc.address": here,
        "jobmanager.bind-host": here,
        "jobmanager.rpc.port": rpc,
        "taskmanager.host": here,
        "taskmanager.bind-host": here,
        "taskmanager.numberOfTaskSlots": slots,
        "execution.checkpointing.dir": folders.checkpoints.as_uri(),
        "execution.checkpointing.savepoint-dir": folders.savepoints.as_uri(),
        "io.tmp.dirs": str(folders.tmp),
        "process.working-dir": str(folders.work),
        # Flink gives RocksDB's log a name made of the path of its data, which may have 255
        # characters and is longer than Flink reckons when state is restored: two folders less.
        "state.backend.rocksdb.localdir": str(folders.work.parent / "db"),
        # Said either way: the configuration for clusters names a ZooKeeper that is not here.
        "high-availability.type": "zookeeper" if quorum else "NONE",
    }
    if quorum:
        settings |= {
            "high-availability.zookeeper.quorum": quorum,
            "high-availability.storageDir": folders.high_availability.as_uri(),
        }
    return settings
