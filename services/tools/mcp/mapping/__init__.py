"""Maps MCP's messages to those of the bus; pure."""
