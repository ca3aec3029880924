"""docs/architecture.md names files that exist, and every package of the services."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
NAMED = sorted(set(re.findall(r"`((?:contracts|services|tests|docs|infra)/[\w./]+)`", PAGE)))


def test_a_path_on_the_page_exists() -> None:
    assert len(NAMED) > 50
    assert [path for path in NAMED if not (ROOT / path).exists()] == []


def test_every_package_of_the_services_has_its_place_in_the_picture() -> None:
    services = ROOT / "services"
    folders = (services, services / "operators", services / "console")
    packages = [path.parent.name for folder in folders for path in folder.glob("*/__init__.py")]
    without_story = {"telemetry"}  # told by their names

    assert packages
    missing = [p for p in packages if f"{p}/" not in PAGE and f"services/{p}" not in PAGE]
    assert set(missing) <= without_story


def test_every_folder_and_module_of_the_worker_is_on_the_page() -> None:
    worker = ROOT / "services/worker"
    folders = {f"{path.parent.relative_to(ROOT)}/" for path in worker.glob("*/**/__init__.py")}
    beside = {str(path.relative_to(ROOT)) for path in worker.glob("[!_]*.py")}

    assert sorted(place for place in folders | beside if f"`{place}`" not in PAGE) == []
