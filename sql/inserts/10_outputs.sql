-- ============================================================================================
-- What the job writes: the same records as the DataStream job's, byte by byte.
-- ============================================================================================

-- Hits, with the event's own headers; under output.on_miss = "emit_null" also events that found no
-- row, with nulls, and the verdict in a field and a header.
INSERT INTO enriched_topic
SELECT
  record_key, enriched, enriched_headers,
  CASE WHEN ts_ms >= 0 THEN TO_TIMESTAMP_LTZ(ts_ms, 3) END
FROM decided_events
WHERE enriched IS NOT NULL;

-- Misses, as they came, with verdict and source, and the time of writing, by which the topic's
-- retention goes; none under "emit_null".
INSERT INTO retry_topic
SELECT
  record_key,
  event,
  set_aside(
    headers,
    verdict,
    CONCAT('${STREAM_TOPIC}[', CAST(p AS STRING), ']@', CAST(o AS STRING)),
    seen_ms,
    CAST(NULL AS STRING),
    ts_ms
  ),
  CURRENT_ROW_TIMESTAMP()
FROM decided_events
WHERE verdict IN (${TO_RETRY});

-- What cannot be read: of the stream; of the table, with headers of its own; and without any,
-- since a function in Python cannot be given a null map.
INSERT INTO dead_topic
SELECT
  record_key, content, headers, CURRENT_ROW_TIMESTAMP()
FROM (
  SELECT
    record_key,
    event AS content,
    set_aside(
      headers,
      verdict,
      CONCAT('${STREAM_TOPIC}[', CAST(p AS STRING), ']@', CAST(o AS STRING)),
      seen_ms,
      problem,
      ts_ms
    ) AS headers
  FROM decided_events
  WHERE verdict IN (${TO_DEAD})
  UNION ALL
  SELECT record_key, record, set_aside(headers, verdict, source, seen_ms, problem, ts_ms)
  FROM bad_rows
  WHERE headers IS NOT NULL
  UNION ALL
  SELECT record_key, record, set_aside_bare(verdict, source, seen_ms, problem, ts_ms)
  FROM bad_rows
  WHERE headers IS NULL
);
