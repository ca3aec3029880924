"""One attempt: how it is asked, what came back, and the events about it."""
