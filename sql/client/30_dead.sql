-- ============================================================================================
-- What the job wrote, read back: what cannot be read, has no key or was given up.
-- ============================================================================================

-- The topic as it is, up to its end when the query starts.
CREATE TEMPORARY TABLE dead_topic (
  k BYTES,
  v BYTES,
  h MAP<STRING, BYTES> METADATA FROM 'headers' VIRTUAL,
  ts TIMESTAMP_LTZ(3) METADATA FROM 'timestamp' VIRTUAL,
  p INT METADATA FROM 'partition' VIRTUAL,
  o BIGINT METADATA FROM 'offset' VIRTUAL
) WITH (${DEAD_READ});

-- With the problem, where there is one.
CREATE TEMPORARY VIEW dead_letters AS
SELECT
  DECODE(h['tablegate-verdict'], 'UTF-8') AS verdict,
  DECODE(h['tablegate-error'], 'UTF-8') AS problem,
  DECODE(k, 'UTF-8') AS record_key,
  DECODE(v, 'UTF-8') AS record,
  DECODE(h['tablegate-source'], 'UTF-8') AS source,
  ts, p, o
FROM dead_topic;
