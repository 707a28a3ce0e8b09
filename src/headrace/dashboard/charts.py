"""Charts as inline SVG: lines over time, a ring of shares, bars. Colours come from the page's style sheet."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from headrace.dashboard.markup import Html, join, tag

_WIDTH, _HEIGHT, _LEFT, _BOTTOM, _TOP, _RIGHT = 320, 160, 52, 22, 12, 4


@dataclass(frozen=True, slots=True)
class Share:
    """One part of a ring: `style` is the class that colours it."""

    label: str
    count: int
    style: str


def line_chart(
    title: str,
    points: Sequence[tuple[float, float]],
    *,
    limit: float | None = None,
    limit_label: str = "limit",
    unit: Callable[[float], str],
) -> Html:
    """A value over seconds, with its limit as a dashed line where there is one.

    Args:
        title: for people who cannot see it.
        points: (seconds, value), oldest first; fewer than two give a note in place of a line.
        limit: drawn across, and the scale reaches it.
        limit_label: what stands at the limit.
        unit: writes a value for the axis.
    """
    if len(points) < 2:
        return tag("p", "Too short to draw: the run ended before its second sample.", class_="quiet")
    start, end = points[0][0], points[-1][0]
    top = _round_up(max([value for _, value in points] + [limit or 0.0]) * 1.04)

    def x(seconds: float) -> float:
        return _LEFT + (seconds - start) / max(1e-9, end - start) * (_WIDTH - _LEFT - _RIGHT)

    def y(value: float) -> float:
        return _HEIGHT - _BOTTOM - value / top * (_HEIGHT - _BOTTOM - _TOP)

    path = " ".join(f"{x(seconds):.1f},{y(value):.1f}" for seconds, value in points)
    floor = _HEIGHT - _BOTTOM
    area = f"{x(start):.1f},{floor} {path} {x(end):.1f},{floor}"
    parts = [tag("title", title)]
    for step in (0.0, 0.5, 1.0):
        level = f"{y(top * step):.1f}"
        parts.append(tag("line", x1=_LEFT, x2=_WIDTH - _RIGHT, y1=level, y2=level, class_="grid"))
        parts.append(tag("text", unit(top * step), x=_LEFT - 6, y=f"{y(top * step) + 3.5:.1f}", text_anchor="end"))
    parts += [
        tag("polygon", points=area, class_="area"),
        tag("polyline", points=path, class_="line"),
        tag("text", _seconds(start), x=_LEFT, y=_HEIGHT - 6),
        tag("text", _seconds(end), x=_WIDTH - _RIGHT, y=_HEIGHT - 6, text_anchor="end"),
    ]
    if limit:
        level = f"{y(limit):.1f}"
        parts.append(tag("line", x1=_LEFT, x2=_WIDTH - _RIGHT, y1=level, y2=level, class_="limit"))
        label_y = y(limit) - 4 if y(limit) > _TOP + 12 else y(limit) + 12
        parts.append(
            tag("text", limit_label, x=_WIDTH - _RIGHT, y=f"{label_y:.1f}", text_anchor="end", class_="limit-label")
        )
    return tag("svg", *parts, viewBox=f"0 0 {_WIDTH} {_HEIGHT}", role="img", class_="chart")


def ring(title: str, shares: Sequence[Share]) -> Html:
    """Shares of a whole as a ring, the sum in its middle."""
    total = sum(share.count for share in shares)
    radius, width, size = 54.0, 18, 140
    around = 2 * math.pi * radius
    parts = [tag("title", title)]
    parts.append(tag("circle", cx=70, cy=70, r=radius, class_="ring-empty", fill="none", stroke_width=width))
    before = 0.0
    for share in shares:
        if not share.count:
            continue
        length = share.count / total * around
        gap = min(2.0, length * 0.3) if share.count < total else 0.0
        parts.append(
            tag(
                "circle",
                tag("title", f"{share.label}: {share.count:,}"),
                cx=70,
                cy=70,
                r=radius,
                fill="none",
                stroke_width=width,
                stroke_dasharray=f"{length - gap:.2f} {around - length + gap:.2f}",
                stroke_dashoffset=f"{-before:.2f}",
                transform="rotate(-90 70 70)",
                class_=f"ring {share.style}",
            )
        )
        before += length
    parts.append(tag("text", f"{total:,}", x=70, y=72, text_anchor="middle", class_="ring-total"))
    parts.append(tag("text", "documents", x=70, y=89, text_anchor="middle"))
    return tag("svg", *parts, viewBox=f"0 0 {size} {size}", role="img", class_="donut")


def columns(title: str, values: Sequence[tuple[str, float, str]]) -> Html:
    """Small columns beside each other: (label, value, value as text); negative values are drawn as nothing."""
    width, height = 12, 44
    top = max((value for _, value, _ in values), default=0.0) or 1.0
    parts = [tag("title", title)]
    for at, (label, value, told) in enumerate(values):
        tall = max(1.5, max(0.0, value) / top * height)
        parts.append(
            tag(
                "rect",
                tag("title", f"{label}: {told}"),
                x=at * width + 1,
                y=f"{height - tall:.1f}",
                width=width - 3,
                height=f"{tall:.1f}",
                rx=1.5,
                class_="column",
            )
        )
    return tag("svg", *parts, viewBox=f"0 0 {max(1, len(values)) * width} {height}", role="img", class_="columns")


def legend(shares: Sequence[Share]) -> Html:
    """The labels of a ring with their counts."""
    rows = [
        tag("li", tag("i", class_=share.style), tag("span", share.label), tag("b", f"{share.count:,}"))
        for share in shares
        if share.count
    ]
    return tag("ul", join(rows), class_="legend")


def _round_up(value: float) -> float:
    """The next number that is pleasant on an axis: 1, 2, 2.5, 5 times a power of ten, or halves of them."""
    if value <= 0:
        return 1.0
    power: float = 10.0 ** math.floor(math.log10(value))
    return next(power * step for step in (1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10) if power * step >= value)


def _seconds(value: float) -> str:
    if value < 120:
        return f"{value:.0f} s"
    return f"{value / 60:.0f} min" if value < 7200 else f"{value / 3600:.1f} h"
