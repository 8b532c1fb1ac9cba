-- ============================================================================================
-- The table's log as states of its keys.
-- ============================================================================================

-- Each state that a key has had: a row, or none.
CREATE TEMPORARY VIEW states_log AS
SELECT
  join_key,
  found.content AS row_content,
  found.content IS NULL AS deleted,
  EXTRACT(EPOCH FROM ts) * 1000 + EXTRACT(MILLISECOND FROM ts) AS written_ms,
  p,
  o
FROM (
  SELECT join_key, read_row(join_key, k, v) AS found, ts, p, o
  FROM (SELECT ${ROW_KEY} AS join_key, k, v, ts, p, o FROM table_log)
)
WHERE found.problem IS NULL AND join_key IS NOT NULL;

-- Since when a key has had a row and has not been deleted again: first record and time of its rows
-- behind the last deletion. Who reads the table to any point behind that meets a row.
CREATE TEMPORARY VIEW lasting_rows AS
SELECT rows_of.join_key, rows_of.p, MIN(rows_of.o) AS o, MIN(rows_of.written_ms) AS written_ms
FROM states_log AS rows_of
LEFT JOIN (
  SELECT join_key, p, MAX(o) AS o FROM states_log WHERE deleted GROUP BY join_key, p
) AS deletions
  ON rows_of.join_key = deletions.join_key AND rows_of.p = deletions.p
WHERE NOT rows_of.deleted AND (deletions.o IS NULL OR rows_of.o > deletions.o)
GROUP BY rows_of.join_key, rows_of.p;
