"""What is shown and what forms ask for, as values: filters, plots, the form of a replay; pure."""
