"""Asks the brokers, before anything is submitted, whether they are what the settings say.

``inspect`` reads the facts and judges them. It raises for what would fail or lose records later,
and returns warnings for what only looks wrong.
"""

from jobs.preflight.cluster import inspect
from jobs.preflight.facts import ClusterFacts, TopicFacts

__all__ = ["ClusterFacts", "TopicFacts", "inspect"]
