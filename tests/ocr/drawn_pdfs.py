"""PDFs made for the tests."""

from __future__ import annotations

import io
from collections.abc import Sequence

import fpdf
import pypdfium2
from drawn_pages import LINES
from PIL import Image


def text_pdf(
    lines: Sequence[str] = LINES, *, pages: int = 1, rotate: int = 0, encryption: dict[str, str] | None = None
) -> bytes:
    """A PDF with a text layer: amounts at the right edge, drawn before the words, as some programs do."""
    pdf = fpdf.FPDF(unit="pt", format=(300, 400))
    if encryption:
        pdf.set_encryption(**encryption)
    pdf.set_font("Helvetica", size=14)
    for _ in range(pages):
        pdf.add_page()
        for row, line in enumerate(lines):
            words, _, last = line.rpartition(" ")
            y = 40 + 24 * row
            if "." in last:
                pdf.text(240, y, last)
                pdf.text(20, y, words)
            else:
                pdf.text(20, y, line)
    content = bytes(pdf.output())
    return rotated(content, rotate) if rotate else content


def rotated(content: bytes, degrees: int) -> bytes:
    document = pypdfium2.PdfDocument(content)
    for page in document:
        page.set_rotation(degrees)
    out = io.BytesIO()
    document.save(out)
    document.close()
    return out.getvalue()


def scan_pdf(image: Image.Image, *, size: tuple[float, float] = (300, 400), text: str = "") -> bytes:
    pdf = fpdf.FPDF(unit="pt", format=size)
    pdf.add_page()
    pdf.image(image, 0, 0, size[0], size[1])
    if text:
        pdf.set_font("Helvetica", size=8)
        pdf.text(5, size[1] - 5, text)
    return bytes(pdf.output())


def bomb_pdf(side: int, *, pages_after: int = 0) -> bytes:
    """A small PDF, written by hand, whose first page shows one image of `side` x `side` pixels."""
    kids = " ".join(f"{n} 0 R" for n in (3, *range(6, 6 + pages_after)))
    paint, text = b"q 300 0 0 400 0 0 cm /I Do Q", b"BT /F 14 Tf 20 300 Td (TOTAL AMOUNT PAID 7.75) Tj ET"
    fonts = "/Font << /F << /Type /Font /Subtype /Type1 /BaseFont /Helvetica >> >>"
    text_at = 6 + pages_after
    image = f"/Type /XObject /Subtype /Image /Width {side} /Height {side} /BitsPerComponent 1 /ColorSpace /DeviceGray"
    page = "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 300 400]"
    bodies = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {1 + pages_after} >>".encode(),
        f"{page} /Contents 4 0 R /Resources << /XObject << /I 5 0 R >> >> >>".encode(),
        b"<< /Length %d >> stream\n%s\nendstream" % (len(paint), paint),
        f"<< {image} /Length 8 >> stream\n".encode() + bytes(8) + b"\nendstream",
        *[f"{page} /Contents {text_at} 0 R /Resources << {fonts} >> >>".encode()] * pages_after,
        b"<< /Length %d >> stream\n%s\nendstream" % (len(text), text),
    ]
    content, places = b"%PDF-1.4\n", []
    for number, body in enumerate(bodies, 1):
        places.append(len(content))
        content += b"%d 0 obj %s endobj\n" % (number, body)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    return content + (
        b"xref\n0 %d\n0000000000 65535 f \n%strailer << /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF"
        % (len(bodies) + 1, table, len(bodies) + 1, len(content))
    )
