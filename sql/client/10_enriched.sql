-- ============================================================================================
-- What the job wrote, read back: events that met their row. For any SQL client of Flink.
-- ============================================================================================

-- The topic as it is, from its beginning to the end that it has when the query starts. To follow
-- it: SELECT * FROM enriched_topic /*+ OPTIONS('scan.bounded.mode' = 'unbounded') */;
CREATE TEMPORARY TABLE enriched_topic (
  k BYTES,
  v BYTES,
  h MAP<STRING, BYTES> METADATA FROM 'headers' VIRTUAL,
  ts TIMESTAMP_LTZ(3) METADATA FROM 'timestamp' VIRTUAL,
  p INT METADATA FROM 'partition' VIRTUAL,
  o BIGINT METADATA FROM 'offset' VIRTUAL
) WITH (${ENRICHED_READ});

-- The same as text; take fields out of it with JSON_VALUE(event, '$.name').
CREATE TEMPORARY VIEW enriched AS
SELECT
  DECODE(k, 'UTF-8') AS record_key,
  DECODE(v, 'UTF-8') AS event,
  ts, p, o
FROM enriched_topic;
