"""Curves as SVG, drawn by hand: two axes, a line for each, and who is who."""

import math
from collections.abc import Mapping, Sequence
from html import escape

Curve = Sequence[tuple[float, float]]

WIDTH, HEIGHT = 720, 300
_LEFT, _RIGHT, _TOP, _BOTTOM = 60, 20, 20, 70
_COLOURS = ("#1769aa", "#c2410c", "#15803d", "#7e22ce", "#854d0e", "#475569")
_TICKS = 5


def chart(curves: Mapping[str, Curve], x_title: str, y_title: str, y_max: float = 0) -> str:
    """An SVG of all curves on the same axes; `y_max` cuts what is above, 0 cuts nothing."""
    points = [point for curve in curves.values() for point in curve]
    x_top = _rounded(max((x for x, _ in points), default=1))
    y_top = _rounded(y_max or max((y for _, y in points), default=1))
    parts = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
            'font-family="sans-serif" font-size="12">'
        ),
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        *_axes(x_top, y_top, x_title, y_title),
    ]
    for n, (name, curve) in enumerate(curves.items()):
        colour = _COLOURS[n % len(_COLOURS)]
        places = " ".join(f"{_x(x, x_top):.1f},{_y(min(y, y_top), y_top):.1f}" for x, y in curve)
        parts.append(
            f'<polyline points="{places}" fill="none" stroke="{colour}" stroke-width="2"/>'
        )
        parts.append(_legend(n, name, colour))
    return "\n".join([*parts, "</svg>", ""])


def _axes(x_top: float, y_top: float, x_title: str, y_title: str) -> list[str]:
    parts = []
    for n in range(_TICKS + 1):
        x, y = x_top * n / _TICKS, y_top * n / _TICKS
        parts += [
            (
                f'<line x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{_y(y, y_top):.1f}" '
                f'y2="{_y(y, y_top):.1f}" stroke="#ddd"/>'
            ),
            f'<text x="{_LEFT - 6}" y="{_y(y, y_top) + 4:.1f}" text-anchor="end">{y:g}</text>',
            (
                f'<text x="{_x(x, x_top):.1f}" y="{HEIGHT - _BOTTOM + 16}" '
                f'text-anchor="middle">{x:g}</text>'
            ),
        ]
    parts.append(
        f'<text x="{WIDTH / 2}" y="{HEIGHT - _BOTTOM + 34}" text-anchor="middle">'
        f"{escape(x_title)}</text>"
    )
    parts.append(f'<text x="6" y="{_TOP - 6}">{escape(y_title)}</text>')
    return parts


def _legend(n: int, name: str, colour: str) -> str:
    x, y = _LEFT + (n % 3) * 220, HEIGHT - 20 + (n // 3) * 14
    return (
        f'<rect x="{x}" y="{y - 8}" width="14" height="4" fill="{colour}"/>'
        f'<text x="{x + 20}" y="{y - 2}">{escape(name)}</text>'
    )


def _x(x: float, top: float) -> float:
    return _LEFT + x / top * (WIDTH - _LEFT - _RIGHT)


def _y(y: float, top: float) -> float:
    return HEIGHT - _BOTTOM - y / top * (HEIGHT - _TOP - _BOTTOM)


def _rounded(value: float) -> float:
    """The next larger 1, 2 or 5 times a power of ten."""
    if value <= 0:
        return 1
    power = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in (1, 2, 5, 10) if step * power >= value)
