"""The child process for work that is too costly for the event loop."""
