-- ============================================================================================
-- Duplicates: an event came out more than once. At least once allows it after a failure.
-- ============================================================================================

-- Records of a key and time in a topic, against the events of that key and time in the stream; a
-- late hit may follow a null. A letter that was replayed several times (--again) may have met its
-- row each time. Where the stream's retention has removed the events, nothing is told.
SELECT
  e.source,
  CONCAT(
    CAST(e.n AS STRING), ' records with its key and time, and ', CAST(s.n AS STRING),
    ' such events in ${STREAM_TOPIC}'
  ) AS problem
FROM (
  SELECT
    topic, k, ts, h['tablegate-verdict'] AS verdict,
    MIN(CONCAT(topic, '[', CAST(p AS STRING), ']@', CAST(o AS STRING))) AS source,
    COUNT(*) AS n
  FROM enriched_log
  GROUP BY topic, k, ts, h['tablegate-verdict']
) AS e
JOIN (
  SELECT
    k, ts,
    COUNT(*) FILTER (WHERE letter IS NULL) AS n,
    COUNT(letter) - COUNT(DISTINCT letter) AS again
  FROM (
    SELECT k, ts, CAST(NULL AS STRING) AS letter FROM stream_log
    UNION ALL
    SELECT k, event_ts, letter FROM replays_log
  )
  GROUP BY k, ts
) AS s
  ON e.k IS NOT DISTINCT FROM s.k AND e.ts = s.ts
WHERE s.n > 0 AND e.n > s.n + s.again
UNION ALL
-- What was set aside says where it stood, and which attempt it was. A replay begins the attempts
-- anew, and says which letter it sent; one that it sent several times passes through as often.
SELECT
  a.source,
  CONCAT(
    CAST(a.n AS STRING), ' records for ', a.event_source, ', attempt ',
    COALESCE(a.attempt, 'not told'), COALESCE(CONCAT(', replayed from ', a.replayed), '')
  )
FROM (
  SELECT event_source, attempt, replayed, MIN(source) AS source, COUNT(*) AS n
  FROM labelled_log
  WHERE topic IN ('${RETRY_TOPIC}', '${DEAD_TOPIC}') AND event_source IS NOT NULL
  GROUP BY topic, event_source, attempt, replayed
) AS a
LEFT JOIN (SELECT letter, COUNT(*) AS n FROM replays_log GROUP BY letter) AS sent
  ON a.replayed = sent.letter
WHERE a.n > COALESCE(sent.n, 1);
