"""Styles, scripts and icons: browsers keep them, since other contents have other addresses."""

from http import HTTPStatus

from aiohttp import hdrs, web

from services.console.context import CONTEXT
from services.console.pages.render import page
from services.console.static_files import VERSION

YEAR_S = 365 * 86_400
FOR_GOOD = f"public, max-age={YEAR_S}, immutable"


async def static_file(request: web.Request) -> web.Response:
    """By its name; with the digest of another version it is what there is now, and is not kept."""
    found = request.app[CONTEXT].static_files.find(request.match_info["name"])
    if found is None:
        text = "There is no such file."
        return page(request, "message.html", HTTPStatus.NOT_FOUND, title="Not Found", text=text)
    response = web.Response(body=found.body, headers={hdrs.VARY: hdrs.ACCEPT_ENCODING})
    if takes_gzip(request.headers.get(hdrs.ACCEPT_ENCODING, "")):
        response.body = found.packed
        response.headers[hdrs.CONTENT_ENCODING] = "gzip"
    response.content_type, response.charset = found.media_type, "utf-8"
    if request.query.get(VERSION) == found.digest:
        response.headers[hdrs.CACHE_CONTROL] = FOR_GOOD
    return response


def takes_gzip(accepted: str) -> bool:
    """What a header `Accept-Encoding` says of gzip; `q=0` is a no."""
    for part in accepted.lower().split(","):
        coding, *parameters = (word.strip() for word in part.split(";"))
        if coding == "gzip":
            return not any(_is_nought(word) for word in parameters)
    return False


def _is_nought(parameter: str) -> bool:
    name, _, value = parameter.partition("=")
    return name.strip() == "q" and not value.strip().strip("0.")
