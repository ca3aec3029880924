"""Kafka as operators use it: topics are read, replays and dismissals are written."""
