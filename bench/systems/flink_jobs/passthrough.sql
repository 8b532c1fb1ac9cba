-- ============================================================================================
-- From topic to topic in the JVM: each event's JSON is read and written, nothing is joined.
-- ============================================================================================

SET 'pipeline.name' = '${name}';
SET 'parallelism.default' = '${parallelism}';

CREATE TABLE events (event_key STRING, id STRING, n BIGINT, pad STRING) WITH (
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

CREATE TABLE enriched (event_key STRING, id STRING, n BIGINT, pad STRING) WITH (
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

INSERT INTO enriched SELECT * FROM events;
