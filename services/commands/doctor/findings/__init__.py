"""Facts about a broker and a machine, and their judgement."""
