"""The program behind `make demo`: real requests through a real Kafka to a real model."""
