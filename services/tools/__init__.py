"""Tool servers from the command line: served, listed, called by hand, checked, and of MCP."""
