"""All systems, by name, in the order in which tables show them."""

from __future__ import annotations

from bench.systems.contract import System
from bench.systems.flink_limits import LimitJvm, LimitPyflink
from bench.systems.flink_peers import FlinkSqlTemporal, PyflinkNaiveProcess, PyflinkNaiveThread
from bench.systems.kafka_streams import KafkaStreamsGlobal, KafkaStreamsKTable
from bench.systems.limit_broker import LimitBroker
from bench.systems.pathway import PathwayAsofNow
from bench.systems.quix import QuixJoinAsof
from bench.systems.tablegate import (
    TablegateDatastream,
    TablegateDatastreamBroadcast,
    TablegateDatastreamNoGate,
    TablegateSql,
    TablegateSqlNoGate,
)

_ALL: list[System] = [
    TablegateDatastream(),
    TablegateDatastreamBroadcast(),
    TablegateSql(),
    TablegateDatastreamNoGate(),
    TablegateSqlNoGate(),
    KafkaStreamsKTable(),
    KafkaStreamsGlobal(),
    FlinkSqlTemporal(),
    PyflinkNaiveThread(),
    PyflinkNaiveProcess(),
    QuixJoinAsof(),
    PathwayAsofNow(),
    LimitJvm(),
    LimitPyflink(),
    LimitBroker(),
]

SYSTEMS = {system.name: system for system in _ALL}

QUICK = ("tablegate-datastream", "tablegate-sql", "kafka-streams-ktable")
"""Those of ``make bench-quick``: ours, and what ratios are to."""
