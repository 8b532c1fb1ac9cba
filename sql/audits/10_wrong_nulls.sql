-- ============================================================================================
-- Wrong nulls: an event found no row, although one had been there for long.
-- ============================================================================================

-- A miss is NOT_FOUND or DELETED only while the table lags by less than gate.max_table_lag_ms; so a
-- row that was written that long before the miss, and has not been deleted since, must have been
-- met. Goes by the times in the records: rows with older times than that of their writing may be
-- told wrongly. What compaction has removed is not missed; nor is a row that came while a first try
-- waited for it, as only later ones say when they missed.
SELECT
  m.source,
  CONCAT(
    m.verdict, ' for key ', m.join_key, ', but it had a row since ${TABLE_TOPIC}[',
    CAST(r.p AS STRING), ']@', CAST(r.o AS STRING), '; the event is ',
    COALESCE(m.event_source, 'not named')
  ) AS problem
FROM labelled_log AS m
JOIN lasting_rows AS r ON m.join_key = r.join_key
WHERE
  m.verdict IN ('NOT_FOUND', 'DELETED')
  AND r.written_ms < m.missed_ms - ${MAX_TABLE_LAG_MS};
