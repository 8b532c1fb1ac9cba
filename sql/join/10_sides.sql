-- ============================================================================================
-- The two sides of the join. What stands in sql/join/ decides what the join keeps in its state:
-- a change here starts without the old state. Queries of your own belong into sql/views/.
-- ============================================================================================

-- The stream, with the key that it is joined by. Events without one share a few made-up keys,
-- since the join keeps a number for each key that it has ever seen.
CREATE TEMPORARY VIEW stream_events AS
SELECT
  routed_key,
  COALESCE(routed_key, CONCAT('no key: ', CAST(MOD(o, 1024) AS STRING))) AS join_key,
  k AS record_key,
  v AS event,
  h AS headers,
  EXTRACT(EPOCH FROM ts) * 1000 + EXTRACT(MILLISECOND FROM ts) AS ts_ms,
  p,
  o,
  CURRENT_ROW_TIMESTAMP() AS seen,
  rt
FROM (SELECT ${EVENT_KEY} AS routed_key, k, v, h, ts, p, o, rt FROM stream_topic);

-- The table, behind its gate: of each key the newest row, or the mark of its deletion.
CREATE TEMPORARY VIEW table_rows AS
SELECT join_key, content, content IS NULL AS deleted, rt
FROM table_records
WHERE problem IS NULL;
