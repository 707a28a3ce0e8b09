"""Paper: a receipt as a list of things to print, from top to bottom, which becomes pixels or a PDF text layer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal

from PIL import Image, ImageDraw

from headrace.simulation.lettering import Face, length_px, strip

Align = Literal["left", "centre", "right"]


@dataclass(frozen=True, slots=True)
class Run:
    """One piece of text in its place: pixels from the left and top of the paper."""

    text: str
    left: int
    top: int
    width: int
    size: int
    bold: bool = False


@dataclass(frozen=True, slots=True)
class Shape:
    """A line, a bar or a disc: `box` in pixels, `kind` what to draw in it."""

    kind: Literal["bar", "frame", "disc"]
    box: tuple[int, int, int, int]


@dataclass(slots=True)
class Paper:
    """A roll of paper with a print head that only moves down.

    Attributes:
        width_px: the width of the roll.
        margin_px: what stays white at both sides.
        size: height of the usual text, in pixels.
        face: the printer's letters.
        runs, shapes: what was printed so far.
        breaks: heights at which the document goes on with a new page.
    """

    width_px: int
    margin_px: int
    size: int
    face: Face = field(default_factory=Face)
    y: int = 0
    runs: list[Run] = field(default_factory=list)
    shapes: list[Shape] = field(default_factory=list)
    breaks: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.y = self.margin_px

    @property
    def height_px(self) -> int:
        """How long the paper is when it is torn off now."""
        return self.y + self.margin_px

    def text(self, text: str, align: Align = "left", *, scale: float = 1.0, bold: bool = False) -> None:
        """Prints a line and moves on. A line that is too long is printed smaller, never cut."""
        self._print([(text, align, self.margin_px, self.width_px - self.margin_px)], scale, bold)

    def centre(self, text: str, *, scale: float = 1.0, bold: bool = False) -> None:
        """Prints a line in the middle."""
        self.text(text, "centre", scale=scale, bold=bold)

    def row(self, left: str, right: str, *, scale: float = 1.0, bold: bool = False) -> None:
        """Prints a label at the left and an amount at the right."""
        inner = self.width_px - 2 * self.margin_px
        need = [length_px(t, round(self.size * scale), self.face, bold=bold) for t in (left, right)]
        border = self.margin_px + round(inner * need[0] / max(1, sum(need)))
        self._print(
            [(left, "left", self.margin_px, border), (right, "right", border, self.width_px - self.margin_px)],
            scale,
            bold,
        )

    def columns(self, cells: Sequence[tuple[str, Align, float, float]], *, bold: bool = False) -> None:
        """Prints cells, each from and to a fraction of the printable width."""
        inner = self.width_px - 2 * self.margin_px
        placed: list[tuple[str, Align, int, int]] = [
            (text, align, self.margin_px + round(inner * start), self.margin_px + round(inner * end))
            for text, align, start, end in cells
        ]
        self._print(placed, 1.0, bold)

    def gap(self, lines: float = 0.5) -> None:
        """Feeds paper."""
        self.y += round(self.size * lines)

    def rule(self, style: Literal["solid", "dashes", "double"] = "dashes") -> None:
        """A line across."""
        self.gap(0.4)
        left, right = self.margin_px, self.width_px - self.margin_px
        thick = max(2, self.size // 12)
        if style == "dashes":
            dash = self.size // 2
            for x in range(left, right - dash // 2, dash):
                self.shapes.append(Shape("bar", (x, self.y, min(right, x + round(dash * 0.6)), self.y + thick)))
        else:
            for at in (0, 3 * thick)[: 2 if style == "double" else 1]:
                self.shapes.append(Shape("bar", (left, self.y + at, right, self.y + at + thick)))
        self.gap(0.5)

    def logo(self, kind: int) -> None:
        """A mark of simple shapes over the name of the house."""
        s, x, y = self.size, self.width_px // 2, self.y
        if kind % 3 == 0:
            self.shapes.append(Shape("disc", (x - s, y, x + s, y + 2 * s)))
            self.shapes.append(Shape("bar", (x - s // 2, y + 2 * s + s // 4, x + s // 2, y + 2 * s + s // 2)))
        elif kind % 3 == 1:
            for at in (-2, -1, 0, 1):
                height = s * (2 + at % 2)
                self.shapes.append(
                    Shape("bar", (x + at * s, y + 3 * s - height, x + at * s + s * 2 // 3, y + s * 5 // 2))
                )
        else:
            self.shapes.append(Shape("frame", (x - 2 * s, y, x + 2 * s, y + 2 * s)))
            self.shapes.append(Shape("disc", (x - s // 2, y + s // 2, x + s // 2, y + s * 3 // 2)))
        self.gap(3.0)

    def barcode(self, digits: str) -> None:
        """Bars that stand for the digits, and the digits under them."""
        x, thin = self.width_px // 2 - len(digits) * self.size // 4, max(2, self.size // 10)
        for digit in digits:
            for at in range(3):
                thick = thin * (1 + (int(digit) >> at & 1))
                self.shapes.append(Shape("bar", (x, self.y, x + thick, self.y + 2 * self.size)))
                x += thick + thin
        self.gap(2.2)
        self.centre(digits, scale=0.8)

    def page_break(self) -> None:
        """Goes on with a new page, where the file has pages; on a roll it is only a gap."""
        self.gap(1.0)
        self.breaks.append(self.y)
        self.gap(1.0)

    def _print(self, cells: Sequence[tuple[str, Align, int, int]], scale: float, bold: bool) -> None:
        size = round(self.size * scale)
        for text, align, left, right in cells:
            if not text:
                continue
            fitting = size
            while (width := length_px(text, fitting, self.face, bold=bold)) > right - left + 2 and fitting > 8:
                fitting -= 1
            x = {"left": left, "centre": (left + right - width) // 2, "right": right - width}[align]
            self.runs.append(Run(text, x, self.y + round((size - fitting) * 1.1), width, fitting, bold))
        self.y += round(size * 1.45)

    def draw(self, *, ink: int = 25, white: int = 252) -> Image.Image:
        """The paper as an `L` image, upright, without any wear."""
        image = Image.new("L", (self.width_px, self.height_px), white)
        pen = ImageDraw.Draw(image)
        for shape in self.shapes:
            if shape.kind == "disc":
                pen.ellipse(shape.box, fill=ink)
            elif shape.kind == "frame":
                pen.rectangle(shape.box, outline=ink, width=3)
            else:
                pen.rectangle(shape.box, fill=ink)
        for run in self.runs:
            image.paste(ink, (run.left, run.top), strip(run.text, run.size, self.face, bold=run.bold))
        return image

    def pages(self, image: Image.Image) -> list[Image.Image]:
        """The drawn image cut at the page breaks."""
        edges = [0, *self.breaks, image.height]
        return [image.crop((0, top, image.width, bottom)) for top, bottom in pairwise(edges)]
