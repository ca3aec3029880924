"""What operators read and do, below the command line and the console."""
