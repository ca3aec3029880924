"""Real requests through a real Kafka to a real model: what `make demo` shows."""
