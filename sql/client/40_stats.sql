-- ============================================================================================
-- What the job wrote, read back: the hit rate by window. Only where stats.topic is set.
-- ============================================================================================

-- The topic as it is, up to its end when the query starts.
CREATE TEMPORARY TABLE stats_topic (
  k BYTES,
  v BYTES,
  p INT METADATA FROM 'partition' VIRTUAL,
  o BIGINT METADATA FROM 'offset' VIRTUAL
) WITH (${STATS_READ});

-- A window that was told again after a restart is here again; the later record counts.
CREATE TEMPORARY VIEW hit_rates AS
SELECT
  TO_TIMESTAMP_LTZ(JSON_VALUE(told, '$.window_start_ms' RETURNING BIGINT), 3) AS window_start,
  TO_TIMESTAMP_LTZ(JSON_VALUE(told, '$.window_end_ms' RETURNING BIGINT), 3) AS window_end,
  JSON_VALUE(told, '$.hits' RETURNING BIGINT) AS hits,
  JSON_VALUE(told, '$.misses' RETURNING BIGINT) AS misses,
  JSON_VALUE(told, '$.hit_rate_bp' RETURNING BIGINT) AS hit_rate_bp,
  p, o
FROM (SELECT DECODE(v, 'UTF-8') AS told, p, o FROM stats_topic);
