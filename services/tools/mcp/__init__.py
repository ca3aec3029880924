"""MCP servers as toolsets: their tools are called over the bus like any other."""
