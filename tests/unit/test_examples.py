"""Each example is short, and its page names all that is in it."""

import json
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted(path.parent for path in (ROOT / "examples").glob("*/README.md"))
LINES_MAX = 70


def test_each_folder_has_a_page_and_stands_in_the_list() -> None:
    folders = sorted(path for path in (ROOT / "examples").iterdir() if path.is_dir())
    listed = (ROOT / "examples/README.md").read_text(encoding="utf-8")

    assert [path for path in folders if any(path.glob("*.py"))] != []
    assert folders == EXAMPLES
    assert all(f"[{folder.name}]({folder.name})" in listed for folder in folders)


@pytest.mark.parametrize("folder", EXAMPLES, ids=lambda folder: folder.name)
def test_an_example_is_short_and_explained(folder: Path) -> None:
    page = (folder / "README.md").read_text(encoding="utf-8")
    for path in sorted(folder.iterdir()):
        if path.suffix in {".py", ".toml", ".ipynb"}:
            assert len(lines(path)) <= LINES_MAX, path
            assert path.name in page, path


def lines(path: Path) -> list[str]:
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".ipynb":
        return text.splitlines()
    cells = json.loads(text)["cells"]
    assert all(cell.get("outputs", []) == [] for cell in cells), "a notebook is kept without output"
    return [line for cell in cells for line in cell["source"]]
