"""The work of lanes as metrics and as spans."""
