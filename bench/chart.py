"""Line charts side by side as one SVG, written without a library: a few panels over the same horizontal axis."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

COLOURS = ("#1f6feb", "#b35900", "#6e4c9e", "#3d7a3d")
_DASHES = ("", "6 3", "2 3", "8 3 2 3")  # readable without colours too
_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 330, 260, 52, 14, 34, 46


@dataclass(frozen=True, slots=True)
class Panel:
    """One panel.

    Attributes:
        title: with the unit.
        lines: points (x, y) by name; a nan is left out.
        level: a horizontal line, and what it is.
        logarithmic: whether the vertical axis is.
    """

    title: str
    lines: Mapping[str, Sequence[tuple[float, float]]]
    level: tuple[float, str] | None = None
    logarithmic: bool = False


def draw(panels: Sequence[Panel], *, across: str, ticks: Sequence[float], note: str) -> str:
    """The SVG. The horizontal axis is logarithmic, with these ticks."""
    names = list(panels[0].lines)
    width, height = _WIDTH * len(panels), _HEIGHT + 52
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        'font-family="system-ui, sans-serif" font-size="12" fill="#24292f">',
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
    ]
    for number, panel in enumerate(panels):
        parts.append(f'<g transform="translate({number * _WIDTH} 0)">{_panel(panel, names, across, ticks)}</g>')
    at = 20
    for number, name in enumerate(names):
        y = _HEIGHT + 14
        parts.append(_path([(at, y - 4), (at + 30, y - 4)], number))
        parts.append(f'<text x="{at + 36}" y="{y}">{escape(name)}</text>')
        at += 62 + 7 * len(name)
    parts.append(f'<text x="20" y="{height - 10}" fill="#57606a" font-size="11">{escape(note)}</text></svg>')
    return "\n".join(parts) + "\n"


def _panel(panel: Panel, names: Sequence[str], across: str, ticks: Sequence[float]) -> str:
    values = [y for line in panel.lines.values() for _, y in line if math.isfinite(y) and y > 0]
    if panel.level is not None:
        values.append(panel.level[0])
    low, high = _range(values, panel.logarithmic)

    def place(x: float, y: float) -> tuple[float, float]:
        share_x = math.log(x / ticks[0]) / math.log(ticks[-1] / ticks[0]) if len(ticks) > 1 else 0.5
        y = max(y, low)
        share_y = math.log(y / low) / math.log(high / low) if panel.logarithmic else (y - low) / (high - low)
        return _LEFT + share_x * (_WIDTH - _LEFT - _RIGHT), _HEIGHT - _BOTTOM - share_y * (_HEIGHT - _TOP - _BOTTOM)

    parts = [f'<text x="{_LEFT}" y="20" font-weight="600">{escape(panel.title)}</text>']
    for y in _marks(low, high, panel.logarithmic):
        left, at = place(ticks[0], y)
        parts.append(f'<path d="M{left:.1f} {at:.1f}H{_WIDTH - _RIGHT}" stroke="#d0d7de"/>')
        parts.append(f'<text x="{left - 6:.1f}" y="{at + 4:.1f}" text-anchor="end">{y:g}</text>')
    for x in ticks:
        at, bottom = place(x, low)
        parts.append(f'<text x="{at:.1f}" y="{bottom + 16:.1f}" text-anchor="middle">{x:g}</text>')
    parts.append(
        f'<text x="{(_LEFT + _WIDTH) / 2:.0f}" y="{_HEIGHT - 12}" text-anchor="middle">{escape(across)}</text>'
    )
    if panel.level is not None:
        left, at = place(ticks[0], panel.level[0])
        parts.append(f'<path d="M{left:.1f} {at:.1f}H{_WIDTH - _RIGHT}" stroke="#cf222e" stroke-dasharray="3 3"/>')
        parts.append(
            f'<text x="{_WIDTH - _RIGHT}" y="{at - 4:.1f}" text-anchor="end" fill="#cf222e" font-size="11">'
            f"{escape(panel.level[1])}</text>"
        )
    for number, name in enumerate(names):
        points = [place(x, y) for x, y in panel.lines.get(name, ()) if math.isfinite(y)]
        if points:
            parts.append(_path(points, number))
            parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{COLOURS[number]}"/>' for x, y in points]
    return "".join(parts)


def _path(points: Sequence[tuple[float, float]], number: int) -> str:
    told = "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
    return f'<path d="M{told}" fill="none" stroke="{COLOURS[number]}" stroke-width="2" stroke-dasharray="{_DASHES[number]}"/>'


def _range(values: Sequence[float], logarithmic: bool) -> tuple[float, float]:
    if not values:
        return (0.1, 1.0) if logarithmic else (0.0, 1.0)
    if logarithmic:
        return 10 ** math.floor(math.log10(min(values))), 10 ** math.ceil(math.log10(max(values) * 1.01))
    step = _step(max(values))
    return 0.0, step * math.ceil(max(values) * 1.05 / step)


def _marks(low: float, high: float, logarithmic: bool) -> list[float]:
    if logarithmic:
        return [10.0**n for n in range(round(math.log10(low)), round(math.log10(high)) + 1)]
    step = _step(high)
    return [step * n for n in range(round(high / step) + 1)]


def _step(highest: float) -> float:
    rough = highest / 5
    size = 10 ** math.floor(math.log10(rough))
    return float(next(size * n for n in (1, 2, 5, 10) if size * n >= rough))
