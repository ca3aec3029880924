"""Real neighbours for the demo, the tests and the benchmarks: a broker and a local model."""
