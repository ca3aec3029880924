"""What is wrong with a test that uses a FakeClient, rather than with the service under test."""


class FakeClientError(AssertionError):
    """The test prepared no outcome, or one that no worker would publish; the text says which."""
