"""What auditors need to check an evidence pack: one file that runs on Python alone."""
