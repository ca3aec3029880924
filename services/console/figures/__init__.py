"""What was folded, as the pictures and tables of the pages; pure."""
