"""Dead letters as operators work with them: folded, grouped, chosen, edited, revived; pure."""
