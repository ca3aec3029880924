"""Whether a tool server keeps the rules of docs/wire.md: calls of all kinds, judged; pure."""
