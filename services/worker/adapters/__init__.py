"""What does I/O for the worker: Kafka, clocks, providers and telemetry."""
