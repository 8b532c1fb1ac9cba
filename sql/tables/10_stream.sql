-- ============================================================================================
-- The stream topic: bytes in, with Kafka's metadata.
-- ============================================================================================

-- Every event, at the moment from which it may be joined; its watermark holds nothing back.
CREATE TEMPORARY TABLE stream_topic (
  k BYTES,
  v BYTES,
  h MAP<STRING, BYTES> METADATA FROM 'headers' VIRTUAL,
  ts TIMESTAMP_LTZ(3) METADATA FROM 'timestamp' VIRTUAL,
  p INT METADATA FROM 'partition' VIRTUAL,
  o BIGINT METADATA FROM 'offset' VIRTUAL,
  rt AS ${EVENT_MOMENT},
  WATERMARK FOR rt AS ${BEYOND_THE_GATE}
) WITH (${STREAM_OPTIONS});
