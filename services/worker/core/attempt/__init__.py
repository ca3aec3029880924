"""One attempt: how it is asked, and what came back."""
