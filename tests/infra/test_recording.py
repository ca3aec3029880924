"""The recording of a terminal: what was where and when, as an SVG that needs nothing else."""

import xml.etree.ElementTree as ET
from pathlib import Path

from rich.console import Group
from rich.text import Text

from infra.demo.recorder import GAP_S_MAX, LAST_S, recorded, svg

DEMO = Path(__file__).parents[2] / "docs/demo.svg"
KIB_MAX = 200
NAMESPACE = "{http://www.w3.org/2000/svg}"


def pictures() -> list[tuple[float, Group]]:
    asked, answered = Text("asked"), Text("answered <&>", "green")
    first, second = Group("$ make demo", asked), Group("$ make demo", answered)
    return [(5.0, first), (5.5, first), (60.0, second)]


def test_a_run_is_shown_from_its_first_picture_to_the_one_without_it() -> None:
    found = recorded(pictures(), 40)

    assert (found.lines, found.lasts_s) == (2, 0.5 + GAP_S_MAX + LAST_S)
    prompt, asked, answered = found.shown
    assert (prompt.run.text, prompt.from_s, prompt.until_s) == ("$ make demo", 0, found.lasts_s)
    assert (asked.from_s, asked.until_s) == (0, 0.5 + GAP_S_MAX)
    assert (answered.run.line, answered.from_s, answered.until_s) == (1, 1.7, found.lasts_s)
    assert answered.run.colour != asked.run.colour


def test_an_svg_moves_without_scripts_and_shows_the_last_picture_if_it_cannot() -> None:
    text = svg(recorded(pictures(), 40), 'a "demo"')
    root = ET.fromstring(text)
    words = {one.text: one for one in root.iter(f"{NAMESPACE}text")}

    assert words["asked"].get("visibility") == "hidden"
    assert words["answered <&>"].get("visibility") is None
    assert words["$ make demo"].find(f"{NAMESPACE}animate") is None
    animation = words["answered <&>"].find(f"{NAMESPACE}animate")
    assert animation is not None
    assert animation.get("values") == "hidden;visible"
    assert "<script" not in text


def test_the_recording_of_the_demo_is_small_and_fetches_nothing() -> None:
    text = DEMO.read_text(encoding="utf-8")

    assert len(text) < KIB_MAX * 1024
    assert text.count("://") == 1  # the namespace
    assert "$ make demo" in text
    for outcome in ("result", "refusal by the", "dead letter: "):
        assert outcome in text
    assert ET.fromstring(text).tag == f"{NAMESPACE}svg"
