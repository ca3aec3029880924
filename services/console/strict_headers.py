"""The HTTP headers that make browsers strict, set on every response."""

from collections.abc import Mapping
from types import MappingProxyType

_HEADERS: Mapping[str, str] = MappingProxyType(
    {
        "X-Frame-Options": "DENY",
        "X-Content-Type-Options": "nosniff",
        "Cache-Control": "no-store",
        # With no-referrer, browsers would send forms with `Origin: null`.
        "Referrer-Policy": "same-origin",
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    }
)


def strict_headers(style_source: str) -> Mapping[str, str]:
    """Of scripts and styles within a page, only the style of that digest is allowed."""
    policy = (
        f"default-src 'none'; script-src 'self'; style-src 'self' {style_source}; "
        "img-src 'self'; connect-src 'self'; form-action 'self'; frame-ancestors 'none'; "
        "base-uri 'none'"
    )
    return {**_HEADERS, "Content-Security-Policy": policy}
