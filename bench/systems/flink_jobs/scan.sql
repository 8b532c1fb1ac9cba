-- ============================================================================================
-- Reads the table topic once, from its begin to its end of now, and keeps nothing of it.
-- ============================================================================================

SET 'pipeline.name' = '${name}';
SET 'parallelism.default' = '${parallelism}';

CREATE TABLE table_rows (row_key STRING, row_value BYTES) WITH (
  'connector' = 'kafka',
  'topic' = '${table}',
  'properties.bootstrap.servers' = '${brokers}',
  'properties.group.id' = '${name}',
  'scan.startup.mode' = 'earliest-offset',
  'scan.bounded.mode' = 'latest-offset',
  'key.format' = 'raw',
  'key.fields' = 'row_key',
  'value.format' = 'raw',
  'value.fields-include' = 'EXCEPT_KEY'
);

CREATE TABLE nowhere (row_key STRING, row_value BYTES) WITH ('connector' = 'blackhole');

INSERT INTO nowhere SELECT * FROM table_rows;
