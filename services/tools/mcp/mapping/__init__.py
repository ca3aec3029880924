"""What MCP says, in the words of the bus; pure."""
