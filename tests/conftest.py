"""What holds for all tests."""

import signal


def pytest_configure() -> None:
    """A shell that starts us in the background lets us, and all our children, ignore Ctrl-C."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
