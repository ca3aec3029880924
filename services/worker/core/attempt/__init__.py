"""One attempt: how it is asked, what came back, and whether that is an answer."""
