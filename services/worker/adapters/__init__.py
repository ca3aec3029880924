"""The worker's I/O: Kafka, clocks, providers and telemetry."""
