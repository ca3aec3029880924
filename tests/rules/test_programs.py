"""Programs are beside tests, and newcomers find each of them in CONTRIBUTING.md."""

from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_each_folder_of_programs_is_named() -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    tests = ROOT / "tests"
    programs = {path.parent for name in ("__main__", "run") for path in tests.glob(f"*/{name}.py")}

    assert len(programs) > 5
    unnamed = [path.name for path in sorted(programs) if f"`tests/{path.name}`" not in page]
    assert unnamed == []


def test_no_module_stands_beside_the_folders_that_is_a_program() -> None:
    loose = (ROOT / "tests").glob("*.py")

    assert [path.name for path in loose if "__name__ ==" in path.read_text(encoding="utf-8")] == []
