-- ============================================================================================
-- Labels: whoever finds a record that was set aside can tell why, and where it came from.
-- ============================================================================================

-- A miss has a verdict that is one, a dead letter says what is wrong; both name event and time.
SELECT
  source,
  CONCAT_WS(
    ', ',
    CASE
      WHEN topic = '${RETRY_TOPIC}' AND (verdict IS NULL OR verdict NOT IN (${MISSES}))
        THEN CONCAT('verdict is ', COALESCE(verdict, 'missing'))
    END,
    CASE WHEN topic = '${DEAD_TOPIC}' AND problem IS NULL THEN 'error is missing' END,
    CASE WHEN event_source IS NULL THEN 'source is missing' END,
    CASE WHEN first_seen_ms IS NULL THEN 'first-seen is missing or no number' END
  ) AS problem
FROM labelled_log
WHERE
  topic IN ('${RETRY_TOPIC}', '${DEAD_TOPIC}')
  AND (
    (topic = '${RETRY_TOPIC}' AND (verdict IS NULL OR verdict NOT IN (${MISSES})))
    OR (topic = '${DEAD_TOPIC}' AND problem IS NULL)
    OR event_source IS NULL
    OR first_seen_ms IS NULL
  );
