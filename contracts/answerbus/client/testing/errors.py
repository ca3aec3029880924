"""Errors in a test that uses a FakeClient, as opposed to errors of the service under test."""


class FakeClientError(AssertionError):
    """The test prepared no outcome, or one that no worker would publish; the text says which."""
