-- ============================================================================================
-- What the job wrote, read back: events that found no row, with the verdict.
-- ============================================================================================

-- The topic as it is, up to its end when the query starts.
CREATE TEMPORARY TABLE retry_topic (
  k BYTES,
  v BYTES,
  h MAP<STRING, BYTES> METADATA FROM 'headers' VIRTUAL,
  ts TIMESTAMP_LTZ(3) METADATA FROM 'timestamp' VIRTUAL,
  p INT METADATA FROM 'partition' VIRTUAL,
  o BIGINT METADATA FROM 'offset' VIRTUAL
) WITH (${RETRY_READ});

-- An event that missed several times is here several times, with its attempts counted up.
CREATE TEMPORARY VIEW misses AS
SELECT
  DECODE(h['tablegate-verdict'], 'UTF-8') AS verdict,
  DECODE(k, 'UTF-8') AS record_key,
  DECODE(v, 'UTF-8') AS event,
  DECODE(h['tablegate-source'], 'UTF-8') AS source,
  CAST(DECODE(h['tablegate-attempt'], 'UTF-8') AS INT) AS attempt,
  ts, p, o
FROM retry_topic;
