-- ============================================================================================
-- The table as it is read. To join a stream of your own, use table_rows FOR SYSTEM_TIME AS OF.
-- ============================================================================================

-- The rows that there are now, as JSON text; a second copy of the table in the query's state.
CREATE TEMPORARY VIEW table_now AS
SELECT join_key, DECODE(content, 'UTF-8') AS content
FROM (
  SELECT
    join_key, content, deleted,
    ROW_NUMBER() OVER (PARTITION BY join_key ORDER BY rt DESC) AS n
  FROM table_rows
)
WHERE n = 1 AND NOT deleted;

-- How far each partition of the table topic has been read.
CREATE TEMPORARY VIEW table_progress AS
SELECT
  p AS table_partition,
  MAX(o) AS reached,
  COUNT(*) AS records,
  COUNT(*) FILTER (WHERE problem IS NOT NULL) AS unreadable
FROM table_records
GROUP BY p;

-- Records of the table topic that cannot be read; what was there before them stays.
CREATE TEMPORARY VIEW bad_rows AS
SELECT
  record_key, record, headers, ts_ms,
  'BAD_RECORD' AS verdict,
  CONCAT('${TABLE_TOPIC}[', CAST(p AS STRING), ']@', CAST(o AS STRING)) AS source,
  UNIX_TIMESTAMP() * 1000 AS seen_ms,
  problem
FROM table_records
WHERE problem IS NOT NULL;
