"""Kafka, through aiokafka and FastStream."""
