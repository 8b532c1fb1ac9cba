-- ============================================================================================
-- Duplicates: an event came out more than once. At least once allows it after a failure.
-- ============================================================================================

-- Records of a key and time, against the events of that key and time in the stream; a late hit may
-- follow a null. Where the stream's retention has removed the events, nothing is told.
SELECT
  e.source,
  CONCAT(
    CAST(e.n AS STRING), ' records with its key and time, and ', CAST(s.n AS STRING),
    ' such events in ${STREAM_TOPIC}'
  ) AS problem
FROM (
  SELECT
    k, ts, h['tablegate-verdict'] AS verdict,
    MIN(CONCAT('${ENRICHED_TOPIC}[', CAST(p AS STRING), ']@', CAST(o AS STRING))) AS source,
    COUNT(*) AS n
  FROM enriched_log
  GROUP BY k, ts, h['tablegate-verdict']
) AS e
JOIN (SELECT k, ts, COUNT(*) AS n FROM stream_log GROUP BY k, ts) AS s
  ON e.k IS NOT DISTINCT FROM s.k AND e.ts = s.ts
WHERE e.n > s.n
UNION ALL
-- What was set aside says where it stood, and which attempt it was.
SELECT
  MIN(source),
  CONCAT(CAST(COUNT(*) AS STRING), ' records for ', event_source, ', attempt ', attempt)
FROM labelled_log
WHERE topic <> '${ENRICHED_TOPIC}' AND event_source IS NOT NULL
GROUP BY topic, event_source, attempt
HAVING COUNT(*) > 1;
