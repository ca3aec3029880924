"""The one exception of infra: something on this machine is not as it must be."""


class SetupError(Exception):
    """A broken set-up; the message says what is wrong and, where there is one, the remedy."""
