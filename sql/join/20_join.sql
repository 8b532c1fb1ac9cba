-- ============================================================================================
-- The join, and what became of each event.
-- ============================================================================================

-- Each event with its row, once the gate lets it through. `known` is what the gate says of the
-- table (udfs/core/marks.py): 0 loaded, 1 opened before it was, 2 lagging; null at the very start.
CREATE TEMPORARY VIEW joined_events AS
SELECT
  e.routed_key, e.record_key, e.event, e.headers, e.ts_ms, e.p, e.o,
  EXTRACT(EPOCH FROM e.seen) * 1000 + EXTRACT(MILLISECOND FROM e.seen) AS seen_ms,
  r.content AS row_content,
  r.deleted,
  MOD(EXTRACT(MILLISECOND FROM CURRENT_WATERMARK(e.rt)), 4) AS known
FROM stream_events AS e
LEFT JOIN table_rows FOR SYSTEM_TIME AS OF e.rt AS r
  ON e.join_key = r.join_key;

-- The verdict, by the rule of udfs/core/model.py; the case table of tests/cases/ is its test. What
-- a miss is stands here; that an event is one, has no key or cannot be read is said by enrich.
CREATE TEMPORARY VIEW judged_events AS
SELECT
  found.verdict AS verdict,
  routed_key, record_key, event, headers, ts_ms, p, o, seen_ms,
  found.content AS enriched,
  found.headers AS enriched_headers,
  found.problem AS problem
FROM (
  SELECT
    *,
    enrich(
      routed_key, record_key, event, headers, row_content,
      CASE
        WHEN known = 1 THEN 'NOT_LOADED'
        WHEN known = 2 THEN 'STALE_TABLE'
        WHEN deleted THEN 'DELETED'
        ELSE 'NOT_FOUND'
      END
    ) AS found
  FROM joined_events
);
