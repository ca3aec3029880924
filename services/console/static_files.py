"""Styles, scripts and icons, held in memory; an address changes with its content."""

import base64
import gzip
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from markupsafe import Markup

FOLDER = Path(__file__).parent / "static"
PATH = "/static/"
VERSION = "v"  # the parameter of an address that holds the digest
FIRST = "first.css"
_DIGEST_CHARS = 16
_MEDIA_TYPES = MappingProxyType(
    {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
)
# One request instead of three, in the order in which their rules and functions follow each other.
_JOINED: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "styles.css": ("console.css", "charts.css", "frame.css"),
        "scripts.js": ("console.js", "live.js", "charts.js"),
    }
)


@dataclass(frozen=True, slots=True)
class StaticFile:
    """The content of one address; `packed` is the same as gzip."""

    name: str
    digest: str
    media_type: str
    body: bytes
    packed: bytes

    @property
    def address(self) -> str:
        """Another one for each content, so that browsers may keep it for good."""
        return f"{PATH}{self.name}?{VERSION}={self.digest}"


class StaticFiles:
    """All that pages load beside themselves; `first_style` and the icon are in them."""

    def __init__(self, bodies: Mapping[str, bytes], first_style: str = "") -> None:
        self._files = {name: _static_file(name, body) for name, body in bodies.items()}
        self.first_style = Markup(first_style)  # noqa: S704 - a file of the package
        digest = hashlib.sha256(first_style.encode()).digest()
        self.style_source = f"'sha256-{base64.b64encode(digest).decode()}'"

    def find(self, name: str) -> StaticFile | None:
        """By its name, without folder and digest."""
        return self._files.get(name)

    def address(self, name: str) -> str:
        """Where pages load it from."""
        return self._files[name].address

    def drawn(self, name: str) -> Markup:
        """An icon as a part of the page, for which no request is waited."""
        return Markup(self._files[name].body.decode())  # noqa: S704 - a file of the package


def read_static_files() -> StaticFiles:
    icons = {path.name: path.read_bytes() for path in sorted(FOLDER.glob("*.svg"))}
    joined = {
        name: b"".join((FOLDER / part).read_bytes() for part in parts)
        for name, parts in _JOINED.items()
    }
    return StaticFiles({**icons, **joined}, (FOLDER / FIRST).read_text())


def _static_file(name: str, body: bytes) -> StaticFile:
    digest = hashlib.sha256(body).hexdigest()[:_DIGEST_CHARS]
    packed = gzip.compress(body, mtime=0)
    return StaticFile(name, digest, _MEDIA_TYPES[Path(name).suffix], body, packed)
