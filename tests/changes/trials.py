"""Changes that newcomers make, each a patch beside this module, and which files each touches."""

import re
from dataclasses import dataclass
from pathlib import Path

from infra.metrics_page import between

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/architecture.md"
ORDER = (
    *("contract", "provider", "dialect", "cause", "composition"),
    *("setting", "metric", "reason", "page", "command"),
)
_HEADER = re.compile(r"^(Change|Tests|Then): (.*)$", re.MULTILINE)
_FILE = re.compile(r"^diff --git a/\S+ b/(\S+)\n(new file)?", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Trial:
    """A patch: `tests` must pass once it is applied and `commands` have written the rest."""

    patch: Path
    change: str
    tests: tuple[str, ...]
    commands: tuple[str, ...]
    new: tuple[str, ...]
    changed: tuple[str, ...]

    @property
    def row(self) -> str:
        """Its row of the page; of a new file the folder."""
        new = [f"a file in `{Path(path).parent}/`" for path in self.new]
        parts = [*new, *(f"`{path}`" for path in self.changed)]
        parts += [f"then `{command}`" for command in self.commands]
        return f"| {self.change} | {'; '.join(parts)} |\n"


def trial(name: str) -> Trial:
    patch = Path(__file__).with_name(f"{name}.patch")
    text = patch.read_text(encoding="utf-8")
    header = dict(_HEADER.findall(text.partition("\ndiff ")[0]))
    files = _FILE.findall(text)
    return Trial(
        patch,
        header["Change"],
        tuple(header["Tests"].split()),
        tuple(filter(None, header.get("Then", "").split(", "))),
        new=tuple(path for path, is_new in files if is_new),
        changed=tuple(path for path, is_new in files if not is_new),
    )


def page(text: str) -> str:
    """The page with the rows of all trials as they must be."""
    rows = "".join(trial(name).row for name in ORDER)
    return between(text, "changes", f"| change | files |\n|---|---|\n{rows}")
