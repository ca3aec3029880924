"""A terminal's pictures over time, and the animated SVG that is made of them."""
