-- ============================================================================================
-- Flink SQL's event-time temporal join, as its documentation writes it: a versioned table out of
-- a compacted topic, and the row that was valid at the event's time.
-- ============================================================================================

SET 'pipeline.name' = '${name}';
SET 'parallelism.default' = '${parallelism}';

-- A quiet table would hold every event for ever: after this time its watermark does not count.
SET 'table.exec.source.idle-timeout' = '5 s';

-- Timestamps of a partition ascend, but several records may have the same: by a millisecond less, as
-- the documentation has it. An event comes out when later ones have been read in each partition.
CREATE TABLE events (
  event_key STRING,
  id STRING,
  n BIGINT,
  pad STRING,
  ts TIMESTAMP_LTZ(3) METADATA FROM 'timestamp' VIRTUAL,
  WATERMARK FOR ts AS ts - INTERVAL '0.001' SECOND
) WITH (
  'connector' = 'kafka',
  'topic' = '${stream}',
  'properties.bootstrap.servers' = '${brokers}',
  'properties.group.id' = '${name}',
  'scan.startup.mode' = 'earliest-offset',
  'key.format' = 'raw',
  'key.fields' = 'event_key',
  'value.format' = 'json',
  'value.fields-include' = 'EXCEPT_KEY'
);

-- Of a row only what the join needs is kept: projections are pushed down.
CREATE TABLE table_rows (
  id STRING,
  tier STRING,
  ts TIMESTAMP_LTZ(3) METADATA FROM 'timestamp' VIRTUAL,
  WATERMARK FOR ts AS ts - INTERVAL '0.001' SECOND,
  PRIMARY KEY (id) NOT ENFORCED
) WITH (
  'connector' = 'upsert-kafka',
  'topic' = '${table}',
  'properties.bootstrap.servers' = '${brokers}',
  'properties.group.id' = '${name}',
  'key.format' = 'raw',
  'value.format' = 'json',
  'value.fields-include' = 'EXCEPT_KEY'
);

CREATE TABLE enriched (
  event_key STRING,
  id STRING,
  n BIGINT,
  pad STRING,
  tier STRING
) WITH (
  'connector' = 'kafka',
  'topic' = '${enriched}',
  'properties.bootstrap.servers' = '${brokers}',
  ${producer},
  'key.format' = 'raw',
  'key.fields' = 'event_key',
  'value.format' = 'json',
  'value.fields-include' = 'EXCEPT_KEY',
  'sink.delivery-guarantee' = 'at-least-once'
);

INSERT INTO enriched
SELECT e.event_key, e.id, e.n, e.pad, r.tier
FROM events AS e
LEFT JOIN table_rows FOR SYSTEM_TIME AS OF e.ts AS r ON e.id = r.id
-- Heartbeats have none.
WHERE e.id IS NOT NULL;
