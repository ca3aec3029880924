"""What commands draw in a terminal; pure."""
