-- ============================================================================================
-- The topics as logs: each from its begin to where it ends when it is asked. For audits, and for
-- questions about what has been written; a query over them alone comes to an end.
-- ============================================================================================

-- The stream, as its producers wrote it.
CREATE TEMPORARY TABLE stream_log (
  k BYTES,
  v BYTES,
  h MAP<STRING, BYTES> METADATA FROM 'headers' VIRTUAL,
  ts TIMESTAMP_LTZ(3) METADATA FROM 'timestamp' VIRTUAL,
  p INT METADATA FROM 'partition' VIRTUAL,
  o BIGINT METADATA FROM 'offset' VIRTUAL
) WITH (${STREAM_LOG});

-- The table, every version of a row that compaction has left.
CREATE TEMPORARY TABLE table_log (
  k BYTES,
  v BYTES,
  h MAP<STRING, BYTES> METADATA FROM 'headers' VIRTUAL,
  ts TIMESTAMP_LTZ(3) METADATA FROM 'timestamp' VIRTUAL,
  p INT METADATA FROM 'partition' VIRTUAL,
  o BIGINT METADATA FROM 'offset' VIRTUAL
) WITH (${TABLE_LOG});

-- What the job has written of each kind. Enriched events: those of output.also too.
CREATE TEMPORARY TABLE enriched_log (
  topic STRING METADATA VIRTUAL,
  k BYTES,
  v BYTES,
  h MAP<STRING, BYTES> METADATA FROM 'headers' VIRTUAL,
  ts TIMESTAMP_LTZ(3) METADATA FROM 'timestamp' VIRTUAL,
  p INT METADATA FROM 'partition' VIRTUAL,
  o BIGINT METADATA FROM 'offset' VIRTUAL
) WITH (${ENRICHED_LOG});

CREATE TEMPORARY TABLE retry_log (
  k BYTES,
  v BYTES,
  h MAP<STRING, BYTES> METADATA FROM 'headers' VIRTUAL,
  ts TIMESTAMP_LTZ(3) METADATA FROM 'timestamp' VIRTUAL,
  p INT METADATA FROM 'partition' VIRTUAL,
  o BIGINT METADATA FROM 'offset' VIRTUAL
) WITH (${RETRY_LOG});

CREATE TEMPORARY TABLE dead_log (
  k BYTES,
  v BYTES,
  h MAP<STRING, BYTES> METADATA FROM 'headers' VIRTUAL,
  ts TIMESTAMP_LTZ(3) METADATA FROM 'timestamp' VIRTUAL,
  p INT METADATA FROM 'partition' VIRTUAL,
  o BIGINT METADATA FROM 'offset' VIRTUAL
) WITH (${DEAD_LOG});
