-- ============================================================================================
-- The hit rate. Counts are state of the query that reads them, and begin with it.
-- ============================================================================================

-- Each decision, at the time at which it was made.
CREATE TEMPORARY VIEW decisions AS
SELECT verdict, PROCTIME() AS pt
FROM decided_events;

-- Counts by window; the rate in basis points, null where nothing was hit or missed.
CREATE TEMPORARY VIEW hit_rate AS
SELECT
  window_start,
  window_end,
  hits,
  misses,
  CASE WHEN hits + misses > 0 THEN hits * 10000 / (hits + misses) END AS hit_rate_bp,
  not_loaded,
  stale_table,
  unreadable
FROM (
  SELECT
    window_start,
    window_end,
    COUNT(*) FILTER (WHERE verdict = 'HIT') AS hits,
    COUNT(*) FILTER (
      WHERE verdict IN (${MISSES})
    ) AS misses,
    COUNT(*) FILTER (WHERE verdict = 'NOT_LOADED') AS not_loaded,
    COUNT(*) FILTER (WHERE verdict = 'STALE_TABLE') AS stale_table,
    COUNT(*) FILTER (WHERE verdict IN ('NO_KEY', 'BAD_RECORD')) AS unreadable
  FROM TABLE(TUMBLE(TABLE decisions, DESCRIPTOR(pt), ${STATS_WINDOW}))
  GROUP BY window_start, window_end
);
