-- ============================================================================================
-- What the job said of each event, read back from its outputs.
-- ============================================================================================

-- Events that went out with a row. Those that went out without one have a verdict in their headers.
CREATE TEMPORARY VIEW hits_log AS
SELECT
  CONCAT('${ENRICHED_TOPIC}[', CAST(p AS STRING), ']@', CAST(o AS STRING)) AS source,
  ${EVENT_KEY} AS join_key,
  v AS enriched,
  EXTRACT(EPOCH FROM ts) * 1000 AS event_ms
FROM enriched_log
WHERE h['tablegate-verdict'] IS NULL;

-- Events that were set aside, or went out without a row: where, why, where they came from, in which
-- attempt, and when the job first read them.
CREATE TEMPORARY VIEW labelled_log AS
SELECT
  topic,
  CONCAT(topic, '[', CAST(p AS STRING), ']@', CAST(o AS STRING)) AS source,
  ${EVENT_KEY} AS join_key,
  DECODE(h['tablegate-verdict'], 'UTF-8') AS verdict,
  DECODE(h['tablegate-source'], 'UTF-8') AS event_source,
  DECODE(h['tablegate-attempt'], 'UTF-8') AS attempt,
  DECODE(h['tablegate-error'], 'UTF-8') AS problem,
  TRY_CAST(DECODE(h['tablegate-first-seen'], 'UTF-8') AS BIGINT) AS first_seen_ms,
  -- A record that was set aside has the time of its writing, and the event's own in a header.
  COALESCE(
    TRY_CAST(DECODE(h['tablegate-timestamp'], 'UTF-8') AS BIGINT), EXTRACT(EPOCH FROM ts) * 1000
  ) AS event_ms
FROM (
  SELECT '${RETRY_TOPIC}' AS topic, k, v, h, ts, p, o FROM retry_log
  UNION ALL
  SELECT '${DEAD_TOPIC}', k, v, h, ts, p, o FROM dead_log
  UNION ALL
  SELECT '${ENRICHED_TOPIC}', k, v, h, ts, p, o
  FROM enriched_log
  WHERE h['tablegate-verdict'] IS NOT NULL
);
