"""What lanes do, as metrics and as spans."""
