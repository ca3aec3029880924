"""Stops the compilation of a schema that would take too long."""


class TooComplexError(Exception):
    """Raised deep inside and caught where compiling starts; `remedy` says what there must be."""

    def __init__(self, remedy: str) -> None:
        """`remedy` completes the sentence "expected ..."."""
        super().__init__(remedy)
        self.remedy = remedy


class ComplexityAllowance:
    """How much of something one schema may take."""

    def __init__(self, most: int, remedy: str) -> None:
        """`remedy` is for what takes more than `most`."""
        self._left = most
        self._remedy = remedy

    def take(self, amount: int) -> None:
        """Raise TooComplexError once more was taken than there is."""
        self._left -= amount
        if self._left < 0:
            raise TooComplexError(self._remedy)
