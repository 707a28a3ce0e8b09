"""Documents of many pages, drawn."""

from __future__ import annotations

from PIL import Image, ImageDraw

from headrace.simulation.pdf import scan_pdf

PAGES = 113
LINES = ("CORNER SHOP", "12 HIGH STREET", "MILK 1.20", "BREAD 2.35", "COFFEE 4.20", "TOTAL 7.75")


def page(number: int = 1, size: tuple[int, int] = (500, 600)) -> Image.Image:
    image = Image.new("L", size, 255)
    draw = ImageDraw.Draw(image)
    for row, line in enumerate((*LINES, f"PAGE {number}")):
        draw.text((40, 40 + 70 * row), line, fill=0, font_size=36)
    return image


def long_scan(pages: int = PAGES) -> bytes:
    """A PDF of scanned pages: each has to be recognised."""
    return scan_pdf([page(number) for number in range(1, pages + 1)])
