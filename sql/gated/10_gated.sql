-- ============================================================================================
-- The gated table as plain CREATE TABLEs, for a query in any SQL session of Flink. It is exact for
-- a start from nothing and refuses the rest: sql/README.md, decision 18.
-- ============================================================================================

-- One subtask: the gate has to see every partition. It refuses to run as one of several.
SET 'parallelism.default' = '1';

-- In the TaskManager: there the gate looks at the table before the first row, and can refuse one
-- that never sends any. A worker process is started by the first row.
SET 'python.execution-mode' = 'thread';
SET 'python.files' = '${PYTHON_FILES}';

-- No checkpoints (the longest time that there is; Flink takes no zero): an attempt that goes on
-- from one does not know what was read before, and is refused. Without them each attempt reads the
-- table anew, and the stream from its start.
SET 'execution.checkpointing.interval' = '9223372036854775807 ms';

-- With the other mode a SELECT would show its rows after a checkpoint, which is none here.
SET 'execution.checkpointing.mode' = 'AT_LEAST_ONCE';

-- Let no silence count as completeness, and forget no rows.
SET 'table.exec.source.idle-timeout' = '0';
SET 'table.exec.state.ttl' = '0';

-- How soon a watermark follows the record that moved it.
SET 'pipeline.auto-watermark-interval' = '50 ms';

-- What the gate has to know (brokers, topic, login) is in this module, and not in an argument: that
-- would stand in every plan and operator name.
CREATE TEMPORARY FUNCTION table_gate AS '${GATE_MODULE}.table_gate' LANGUAGE PYTHON;
CREATE TEMPORARY FUNCTION event_moment AS '${GATE_MODULE}.event_moment' LANGUAGE PYTHON;

-- The table topic. Columns and options that may not be changed:
--   p, o            what the gate goes by
--   complete_until  the gate's answer, the time until which the table is complete
--   rt              one time for all rows, so that a newer row takes the place of the one before
--   value.format    raw: other formats drop deletions and bad records, and the gate waits for each
--   scan.*          from the beginning, without an end; the gate refuses another beginning
CREATE TEMPORARY TABLE table_topic (
  k BYTES,
  v BYTES,
  ts TIMESTAMP_LTZ(3) METADATA FROM 'timestamp' VIRTUAL,
  p INT METADATA FROM 'partition' VIRTUAL,
  o BIGINT METADATA FROM 'offset' VIRTUAL,
  complete_until AS table_gate(p, o),
  rt AS TO_TIMESTAMP_LTZ(0, 3),
  WATERMARK FOR rt AS TO_TIMESTAMP_LTZ(complete_until, 3)
) WITH (${TABLE_READ});

-- Of each key the newest row; a deletion stays, with its mark, so that it can be told from no row.
CREATE TEMPORARY VIEW table_rows AS
SELECT join_key, content, deleted, rt
FROM (
  SELECT *, ROW_NUMBER() OVER (PARTITION BY join_key ORDER BY rt DESC) AS n
  FROM (
    SELECT ${ROW_KEY} AS join_key, DECODE(v, 'UTF-8') AS content, v IS NULL AS deleted, rt
    FROM table_topic
  )
)
WHERE n = 1;

-- The stream. Its moment comes from Python so that the planner leaves the watermark behind the
-- source: pushed into it, one quiet partition would hold all others. Give it no idle timeout, or
-- the query stands still after the first pause.
CREATE TEMPORARY TABLE stream_topic (
  k BYTES,
  v BYTES,
  ts TIMESTAMP_LTZ(3) METADATA FROM 'timestamp' VIRTUAL,
  p INT METADATA FROM 'partition' VIRTUAL,
  o BIGINT METADATA FROM 'offset' VIRTUAL,
  rt AS TO_TIMESTAMP_LTZ(event_moment(o), 3),
  WATERMARK FOR rt AS rt
) WITH (${STREAM_READ});

CREATE TEMPORARY VIEW stream_events AS
SELECT ${EVENT_KEY} AS join_key, DECODE(k, 'UTF-8') AS record_key, DECODE(v, 'UTF-8') AS event,
  ts, p, o, rt
FROM stream_topic;

-- Each event with its row, from the moment on at which the table has been read. What the job's own
-- reader refuses of a JSON object (a key written twice, say) is not told from others here.
CREATE TEMPORARY VIEW joined_events AS
SELECT
  CASE
    WHEN e.event IS NULL OR e.event IS NOT JSON OBJECT THEN 'BAD_RECORD'
    WHEN e.join_key IS NULL THEN 'NO_KEY'
    WHEN r.join_key IS NULL THEN 'NOT_FOUND'
    WHEN r.deleted THEN 'DELETED'
    ELSE 'HIT'
  END AS verdict,
  e.join_key, e.record_key, e.event, r.content AS row_content, e.ts, e.p, e.o
FROM stream_events AS e
LEFT JOIN table_rows FOR SYSTEM_TIME AS OF e.rt AS r
  ON e.join_key = r.join_key;
