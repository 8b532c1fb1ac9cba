-- ============================================================================================
-- Queries that must return no rows. They read what the job decides while they run.
-- ============================================================================================

-- A hit has content.
SELECT p, o FROM decided_events WHERE verdict = 'HIT' AND enriched IS NULL;

-- An event that is no hit has none.
SELECT p, o, verdict FROM decided_events WHERE verdict <> 'HIT' AND enriched IS NOT NULL;

-- What cannot be read says why, and nothing else does.
SELECT p, o, verdict, problem
FROM decided_events
WHERE (verdict IN ('NO_KEY', 'BAD_RECORD')) <> (problem IS NOT NULL);

-- No event is decided twice; keeps a count for each event, so do not let it run for long.
SELECT p, o, COUNT(*) AS n
FROM decided_events
GROUP BY p, o
HAVING COUNT(*) > 1;
