-- ============================================================================================
-- What the planner may do. Each line here keeps a promise of the gate; add others at your own risk.
-- ============================================================================================

-- Keep the table's rows and the held events for ever: a time to live would forget rows.
SET 'table.exec.state.ttl' = '0';

-- Let no silence count as completeness: an idle table side would let events through.
SET 'table.exec.source.idle-timeout' = '0';

-- Hand records on one by one: gathered ones would wait without need.
SET 'table.exec.mini-batch.enabled' = 'false';

-- Show a record's timestamp in the same way everywhere.
SET 'table.local-time-zone' = 'UTC';
