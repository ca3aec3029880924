"""Formats as patterns, for grammars that do not know them or take 31 November for a date."""

_SHORT_MONTH = "(04|06|09|11)-(0[1-9]|[12][0-9]|30)"
_LONG_MONTH = "(01|03|05|07|08|10|12)-(0[1-9]|[12][0-9]|3[01])"
_FEBRUARY = "02-(0[1-9]|1[0-9]|2[0-8])"
_LEAP_YEAR = "([0-9]{2}(0[48]|[2468][048]|[13579][26])|([02468][048]|[13579][26])00)"
_DATE = f"([0-9]{{4}}-({_LONG_MONTH}|{_SHORT_MONTH}|{_FEBRUARY})|{_LEAP_YEAR}-02-29)"
_CLOCK = "([01][0-9]|2[0-3]):[0-5][0-9]"
_PART = r"(\.[0-9]+)?"
_LEAP_SECOND = rf"23:59:60{_PART}([Zz]|[+-]00:00)"  # elsewhere it comes at other hours
_TIME = rf"({_CLOCK}:[0-5][0-9]{_PART}([Zz]|[+-]{_CLOCK})|{_LEAP_SECOND})"
_BYTE = "(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"

FORMAT_PATTERNS = {
    "date": f"^{_DATE}$",
    "date-time": f"^{_DATE}[Tt]{_TIME}$",
    "time": f"^{_TIME}$",
    "ipv4": rf"^({_BYTE}\.){{3}}{_BYTE}$",
}
