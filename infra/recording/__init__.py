"""A terminal's frames over time, and the animated SVG that shows them."""
