-- ============================================================================================
-- Stale joins: an event met a row that had been replaced or deleted long before.
-- ============================================================================================

-- Of each hit: the newest state of its key that was written gate.max_table_lag_ms before the event,
-- and the newest state that holds what the event carries. The second must not be the older one.
-- Hits do not say when they were read, so this goes by the event's own time, which is earlier; and
-- only by keys that have had several states, all in one partition.
SELECT
  source,
  CONCAT(
    'key ', join_key, ' was joined with the row of ${TABLE_TOPIC}[', CAST(p AS STRING), ']@',
    CAST(carried AS STRING), ', which had been replaced by @', CAST(due AS STRING)
  ) AS problem
FROM (
  SELECT
    h.source,
    h.join_key,
    s.p,
    MAX(s.o) FILTER (WHERE s.written_ms < h.event_ms - ${MAX_TABLE_LAG_MS}) AS due,
    MAX(s.o) FILTER (WHERE carries(h.enriched, s.row_content)) AS carried
  FROM hits_log AS h
  JOIN (
    SELECT join_key FROM states_log GROUP BY join_key HAVING COUNT(*) > 1 AND MIN(p) = MAX(p)
  ) AS changed ON h.join_key = changed.join_key
  JOIN states_log AS s ON h.join_key = s.join_key
  GROUP BY h.source, h.join_key, s.p
)
WHERE carried < due;
