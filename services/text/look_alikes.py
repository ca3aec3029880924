"""Letters that people take for Latin ones, as in a name that passes for another; pure."""

# Small letters of other scripts, each as the Latin one that it looks like.
AS_LATIN = str.maketrans(
    "\u0430\u0432\u0435\u043a\u043c\u043d\u043e\u0440\u0441\u0442\u0443\u0445\u0455\u0456\u0458\u0501\u051b"
    "\u03b1\u03b2\u03b5\u03b9\u03ba\u03bd\u03bf\u03c1\u03c4\u03c5\u03c7\u0261\u0131\u04bb\u0578\u057d\u0581",
    "abekmhopctyxsijdqabeikvoptuxgihnug",
)
_WIDE = ("\uff01", "\uff5e")  # ASCII in full width


def looks_latin(sign: str) -> bool:
    """Whether it is a sign beyond ASCII that passes for one within."""
    return _WIDE[0] <= sign <= _WIDE[1] or ord(sign.lower()[0]) in AS_LATIN
