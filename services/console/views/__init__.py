"""Content of pages and forms as values: filters, plots, the form of a replay; pure."""
