"""Errors in a test that uses a FakeClient, as opposed to errors of the service under test."""


class FakeClientError(AssertionError):
    """The test prepared no outcome, or one that no worker would publish; the text says which."""


class CassetteError(FakeClientError):
    """A cassette cannot be played, or what is asked now is not what was recorded."""
