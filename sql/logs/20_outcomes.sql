-- ============================================================================================
-- What the job said of each event, read back from its outputs.
-- ============================================================================================

-- Events that went out with a row. Those that went out without one have a verdict in their headers.
CREATE TEMPORARY VIEW hits_log AS
SELECT
  CONCAT(topic, '[', CAST(p AS STRING), ']@', CAST(o AS STRING)) AS source,
  ${EVENT_KEY} AS join_key,
  v AS enriched,
  EXTRACT(EPOCH FROM ts) * 1000 + EXTRACT(MILLISECOND FROM ts) AS event_ms
FROM enriched_log
WHERE h['tablegate-verdict'] IS NULL;

-- Events that were set aside, or went out without a row: where, why, where they came from, in which
-- attempt, and when the job first read them; `replayed` is the dead letter that they were before.
CREATE TEMPORARY VIEW labelled_log AS
SELECT
  topic,
  CONCAT(topic, '[', CAST(p AS STRING), ']@', CAST(o AS STRING)) AS source,
  ${EVENT_KEY} AS join_key,
  -- What is written as an empty text is not told.
  NULLIF(DECODE(h['tablegate-verdict'], 'UTF-8'), '') AS verdict,
  NULLIF(DECODE(h['tablegate-source'], 'UTF-8'), '') AS event_source,
  DECODE(h['tablegate-attempt'], 'UTF-8') AS attempt,
  NULLIF(DECODE(h['tablegate-error'], 'UTF-8'), '') AS problem,
  DECODE(h['tablegate-replayed'], 'UTF-8') AS replayed,
  TRY_CAST(DECODE(h['tablegate-first-seen'], 'UTF-8') AS BIGINT) AS first_seen_ms,
  -- A record that was set aside has the time of its writing, and the event's own in a header.
  COALESCE(
    TRY_CAST(DECODE(h['tablegate-timestamp'], 'UTF-8') AS BIGINT),
    EXTRACT(EPOCH FROM ts) * 1000 + EXTRACT(MILLISECOND FROM ts)
  ) AS event_ms,
  -- When it missed. A try that is not the first one is set aside in the moment in which it misses;
  -- of a first one, which may have waited, no more is told than when the event was read.
  COALESCE(
    CASE
      WHEN
        h['tablegate-timestamp'] IS NOT NULL
        AND (
          TRY_CAST(DECODE(h['tablegate-attempt'], 'UTF-8') AS BIGINT) > 1
          OR h['tablegate-replayed'] IS NOT NULL
        )
        THEN EXTRACT(EPOCH FROM ts) * 1000 + EXTRACT(MILLISECOND FROM ts)
    END,
    TRY_CAST(DECODE(h['tablegate-first-seen'], 'UTF-8') AS BIGINT),
    TRY_CAST(DECODE(h['tablegate-timestamp'], 'UTF-8') AS BIGINT),
    EXTRACT(EPOCH FROM ts) * 1000 + EXTRACT(MILLISECOND FROM ts)
  ) AS missed_ms
FROM (
  SELECT '${RETRY_TOPIC}' AS topic, k, v, h, ts, p, o
  FROM retry_log
  WHERE h['tablegate-verdict'] IS NOT NULL OR h['tablegate-replayed'] IS NULL
  UNION ALL
  SELECT '${DEAD_TOPIC}', k, v, h, ts, p, o FROM dead_log
  UNION ALL
  SELECT topic, k, v, h, ts, p, o
  FROM enriched_log
  WHERE h['tablegate-verdict'] IS NOT NULL
);

-- Dead letters that a replay sent back by the retry topic; the job has said nothing of them yet.
CREATE TEMPORARY VIEW replays_log AS
SELECT
  CONCAT('${RETRY_TOPIC}[', CAST(p AS STRING), ']@', CAST(o AS STRING)) AS source,
  DECODE(h['tablegate-replayed'], 'UTF-8') AS letter,
  DECODE(h['tablegate-source'], 'UTF-8') AS event_source,
  k,
  TO_TIMESTAMP_LTZ(TRY_CAST(DECODE(h['tablegate-timestamp'], 'UTF-8') AS BIGINT), 3) AS event_ts
FROM retry_log
WHERE h['tablegate-verdict'] IS NULL AND h['tablegate-replayed'] IS NOT NULL;
