-- ============================================================================================
-- The output topics: bytes out, with headers and the event's own timestamp.
-- ============================================================================================

-- Events with the fields of their row.
CREATE TEMPORARY TABLE enriched_topic (
  k BYTES,
  v BYTES,
  h MAP<STRING, BYTES> METADATA FROM 'headers',
  ts TIMESTAMP_LTZ(3) METADATA FROM 'timestamp'
) WITH (${ENRICHED_OPTIONS});

-- Events that found no row, as they came, with the verdict in their headers.
CREATE TEMPORARY TABLE retry_topic (
  k BYTES,
  v BYTES,
  h MAP<STRING, BYTES> METADATA FROM 'headers',
  ts TIMESTAMP_LTZ(3) METADATA FROM 'timestamp'
) WITH (${RETRY_OPTIONS});

-- Events and rows that cannot be read, and events without a key.
CREATE TEMPORARY TABLE dead_topic (
  k BYTES,
  v BYTES,
  h MAP<STRING, BYTES> METADATA FROM 'headers',
  ts TIMESTAMP_LTZ(3) METADATA FROM 'timestamp'
) WITH (${DEAD_OPTIONS});
