"""What ends the work on a schema that would take too much of it."""


class TooComplexError(Exception):
    """Raised deep inside and caught where compiling starts; `remedy` says what there must be."""

    def __init__(self, remedy: str) -> None:
        """`remedy` completes the sentence "expected ..."."""
        super().__init__(remedy)
        self.remedy = remedy
