-- ============================================================================================
-- What became of the events. Texts are text here; the topics get the bytes as they came.
-- ============================================================================================

-- Events that met their row.
CREATE TEMPORARY VIEW enriched AS
SELECT
  routed_key AS join_key,
  DECODE(enriched, 'UTF-8') AS event,
  DECODE(record_key, 'UTF-8') AS record_key,
  TO_TIMESTAMP_LTZ(ts_ms, 3) AS event_time,
  p AS stream_partition,
  o AS stream_offset
FROM decided_events
WHERE verdict = 'HIT';

-- Events that found no row, and why.
CREATE TEMPORARY VIEW misses AS
SELECT
  verdict,
  routed_key AS join_key,
  DECODE(event, 'UTF-8') AS event,
  DECODE(record_key, 'UTF-8') AS record_key,
  TO_TIMESTAMP_LTZ(ts_ms, 3) AS event_time,
  p AS stream_partition,
  o AS stream_offset
FROM decided_events
WHERE verdict IN (${MISSES});

-- Events without a key or that cannot be read, and what is wrong with them.
CREATE TEMPORARY VIEW unreadable AS
SELECT
  verdict,
  problem,
  DECODE(event, 'UTF-8') AS event,
  p AS stream_partition,
  o AS stream_offset
FROM decided_events
WHERE verdict IN ('NO_KEY', 'BAD_RECORD');
