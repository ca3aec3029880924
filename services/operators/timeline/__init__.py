"""Everything that happened to a workflow, in one order; pure."""
