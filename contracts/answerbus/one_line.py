"""A text on one line: line ends, invisible signs and terminal commands are escaped."""


def one_line(text: str) -> str:
    r"""The text, with `\n` and the like in the place of signs that cannot be printed."""
    if text.isprintable():
        return text
    return "".join(sign if sign.isprintable() else _written_out(sign) for sign in text)


def _written_out(sign: str) -> str:
    return sign.encode("unicode_escape").decode("ascii")
