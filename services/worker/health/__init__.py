"""The health of a worker: progress, stuck lanes, and current gauges."""
