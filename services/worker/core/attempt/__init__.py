"""One attempt: its prompt, its reply, and whether the reply is an answer."""
