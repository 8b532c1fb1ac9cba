-- ============================================================================================
-- What the planner may do. Each line here keeps a promise of the gate; add others at your own risk.
-- ============================================================================================

-- Keep the table's rows and the held events for ever: a time to live would forget rows.
SET 'table.exec.state.ttl' = '0';

-- Let no silence count as completeness: an idle table side would let events through.
SET 'table.exec.source.idle-timeout' = '0';

-- Hand records on one by one: gathered ones would wait without need.
SET 'table.exec.mini-batch.enabled' = 'false';

-- Let no query share state with another: it would belong to the one that comes first, and be lost
-- to the other when a query is added before it or the first is taken away.
SET 'table.optimizer.reuse-sub-plan-enabled' = 'false';

-- Show a record's timestamp in the same way everywhere.
SET 'table.local-time-zone' = 'UTC';
