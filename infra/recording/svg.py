"""A recording as one SVG that moves by itself, without scripts and without a network; pure."""

from html import escape

from infra.recording.frames import Recording, Shown

CHAR_PX, LINE_PX, FONT_PX, MARGIN_PX = 7.2, 17, 12, 14
_HEAD = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" \
font-family="ui-monospace,SFMono-Regular,Menlo,Consolas,monospace" font-size="{font}" \
role="img" aria-label="{label}">
<rect width="100%" height="100%" rx="8" fill="#0d1117"/>
"""


def svg(recording: Recording, label: str) -> str:
    """The document; a viewer that moves nothing shows the last picture."""
    width = recording.columns * CHAR_PX + 2 * MARGIN_PX
    height = recording.lines * LINE_PX + 2 * MARGIN_PX
    head = _HEAD.format(width=width, height=height, font=FONT_PX, label=escape(label))
    return head + "".join(_text(one, recording.lasts_s) for one in recording.shown) + "</svg>\n"


def _text(one: Shown, lasts_s: float) -> str:
    run = one.run
    x, y = MARGIN_PX + run.column * CHAR_PX, MARGIN_PX + (run.line + 0.8) * LINE_PX
    weight = ' font-weight="bold"' if run.is_bold else ""
    place = f'<text x="{x:.1f}" y="{y:.1f}" fill="{run.colour}"{weight}'
    place += f' textLength="{len(run.text) * CHAR_PX:.1f}" xml:space="preserve"'
    if one.from_s <= 0 and one.until_s >= lasts_s:
        return f"{place}>{escape(run.text)}</text>\n"
    hidden = "" if one.until_s >= lasts_s else ' visibility="hidden"'
    return f"{place}{hidden}>{escape(run.text)}{_animation(one, lasts_s)}</text>\n"


def _animation(one: Shown, lasts_s: float) -> str:
    """When it is to be seen, for ever again; the last ones stay to the end."""
    changes = [(0.0, "hidden")] if one.from_s > 0 else []
    changes.append((one.from_s, "visible"))
    if one.until_s < lasts_s:
        changes.append((one.until_s, "hidden"))
    values = ";".join(value for _, value in changes)
    times = ";".join(f"{at_s / lasts_s:.4f}".rstrip("0").rstrip(".") for at_s, _ in changes)
    return (
        f'<animate attributeName="visibility" calcMode="discrete" dur="{lasts_s:.1f}s" '
        f'repeatCount="indefinite" values="{values}" keyTimes="{times}"/>'
    )
