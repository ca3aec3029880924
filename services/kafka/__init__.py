"""The way to a Kafka cluster that the settings name."""
