# ruff: noqa: E501 - the tables of patterns read better unbroken
"""The merchant's address: the rows under the name that read like one."""

from __future__ import annotations

import re
from collections.abc import Sequence

from headrace.extraction.rows import Row

_STREET = re.compile(
    r"(?i)\b(?:jalan|jln|j1n|lorong|lot|l[o0]t|taman|tmn|bandar|lebuh|persiaran|kampung|kg\.|mukim|seksyen|sek\.|plaza|wisma|menara|batu|desa|block|blk|unit|floor|flr|level|"
    r"ground|street|st\.|road|rd|avenue|ave|lane|drive|boulevard|blvd|highway|hwy|mall|shopping|suite|square|park|po box|"
    r"stra(?:ß|ss)e|str\.|platz|allee|weg|gasse|rue|place|quai|chemin|calle|c/|avda|avenida|plaza|via|viale|piazza|corso|largo|rua|travessa|pra[cç]a|straat|laan|plein|"
    r"ul\.|aleja|al\.|adrese|iela|mah\.|cad\.|sok\.|cd\.|sk\.)(?=[\W\d]|$)|\w{3,}(?:straße|strasse|straat|weg|laan|gasse)\b"
)
_PLACE = re.compile(
    r"(?i)\b(?:selangor|johor|kuala lumpur|penang|pulau pinang|perak|kedah|melaka|sabah|sarawak|pahang|kelantan|terengganu|perlis|negeri sembilan|"
    r"putrajaya|malaysia|petaling jaya|shah alam|klang|subang|cheras|kepong|singapore|new zealand|auckland|deutschland|france|espa[nñ]a|italia|nederland|polska|usa|"
    r"w\.?\s?p\.?|d\.\s?e\b\.?|darul (?:ehsan|takzim|ridzuan))\b"
)
_POSTCODE = re.compile(
    r"(?<![\d./-])(?:\d{5}|\d{2}-\d{3}|\d{4}\s?[A-Z]{2}|[A-Z]{1,2}\d[\dA-Z]?\s?\d[A-Z]{2}|\d{4}-\d{3})(?![\d./-])"
)
_HOUSE = re.compile(r"(?i)^\W*(?:n[o0]\b\.?|lot\b|unit\b|\d{1,4}[a-z]?\s?[,-])")
_STREET_AND_NUMBER = re.compile(  # every word ends before the next one can begin: no row takes long
    r"(?i)^\W*(?:\d{1,4}[a-z]?,?\s+[^\W\d_][\w'.-]*(?:\s[^\W\d_][\w'.-]*){0,3}|"
    r"[^\W\d_]+(?:[ .'-]{1,2}[^\W\d_]+){0,4}[ .]{0,2}\d{1,4}(?:-\d{1,3}){0,2}\s?[a-z]?)\W*$"
)
_TOWN = re.compile(
    r"(?<![\d./-])(?:\d{5}|\d{2}-\d{3}|\d{4}\s?[A-Z]{2}|\d{3}\s\d{2}|\d{4}-\d{3}|[1-9]\d{3})\s+[^\W\d_]{3,}|"
    r"[^\W\d_]{3,}\s*,?\s+(?:[A-Z]{1,2}\d[\dA-Z]?\s?\d[A-Z]{2}|(?:[A-Z]{2}\s+)?\d{5}|\d{3}-\d{4})\W*$"
)
_STOP = re.compile(
    r"(?i)\b(?:tel|te1|fax|phone|ph|hotline|gst|sst|vat|nip|btw|kvk|tax|invoice|receipt|cashier|date|time|bill|www|e-?mail|co\.?\s?(?:reg\.?\s?)?no|company no|company reg|roc|reg\.? no|"
    r"order|table|cash sale|member|customer|document|paragon|p\.? ?iva|nif|cif|siret|counter|terminal|shopping hours|operat\w*|sold to|bill to|tax inv|doc\.? no|"
    r"qty|item|station|invo|sales? ?person|thank|mobile|whats\s?app\w*)\b|@|\.com|(?<!no)(?<!no )[:#]\s*\d"
)
_REGISTRATION = re.compile(r"^\W*[A-Z]{0,3}\d[\dA-Z]{3,}\s?-?\s?[A-Z]?\W*$")


def is_address(text: str) -> bool:
    """True for a row that reads like part of an address."""
    if _STREET.search(text) and (any(c.isdigit() for c in text) or "," in text):
        return True
    if _POSTCODE.search(text) and re.search(r"[^\W\d_]{3,}", text):
        return True
    return bool(_HOUSE.match(text) and re.search(r"[^\W\d_]{3,}", text)) or bool(_PLACE.fullmatch(text.strip(" .,")))


def is_street_above_town(text: str, following: str) -> bool:
    """True for a few words with a house number, above a row with a postcode: `Kastanienallee 12`, `27 Welsh Back`."""
    return bool(_STREET_AND_NUMBER.match(text)) and bool(_TOWN.search(following))


def reads_like_place(text: str) -> bool:
    """True where a street or a place is named, though nothing else says address."""
    return bool(_STREET.search(text) or _PLACE.search(text))


def address_rows(rows: Sequence[Row], after: int) -> list[Row]:
    """The rows of the address that follows the row with index `after`; empty where nothing reads like one.

    It starts within six rows, at the first row that reads like an address, and runs to the first that is something else.
    """
    out: list[Row] = []
    strong = False
    for row in rows[after + 1 : after + 13]:
        text = row.text.strip()
        if out and row.page != out[-1].page:
            break
        if not out and row.index > after + 6:
            break
        if _STOP.search(text) or (_REGISTRATION.match(text) and not _POSTCODE.fullmatch(text.strip(" .,"))):
            if out:
                break
            continue
        if is_address(text):
            out.append(row)
            strong = strong or bool(_POSTCODE.search(text) or _PLACE.search(text) or _STREET.search(text))
        elif (out and _continues(out[-1].text, text, ended=any(_POSTCODE.search(r.text) for r in out))) or (
            out and _leads_to_postcode(rows, row, out)
        ):
            out.append(row)
        elif out:
            break
        if len(out) == 6:
            break
    return out if strong else []


def _leads_to_postcode(rows: Sequence[Row], row: Row, so_far: Sequence[Row]) -> bool:
    """A row of words between the street and the row with the postcode."""
    if any(_POSTCODE.search(r.text) for r in so_far) or row.index + 1 >= len(rows):
        return False
    following = rows[row.index + 1].text
    return bool(_POSTCODE.search(following)) and not _STOP.search(following) and len(row.text) <= 44


def _continues(before: str, text: str, *, ended: bool) -> bool:
    """A row without marks of an address is part of it between its rows, and as a short town or state at its end."""
    if not re.search(r"[^\W\d_]{3,}", text) or len(text) > 44:
        return False
    if before.rstrip().endswith((",", "-", "&")):
        return True
    if ended and re.search(r"(?i)\b(?:malaysia|singapore|deutschland|france|italia|nederland|polska)\W*$", before):
        return False
    if _PLACE.search(text) and len(text.split()) <= 5:
        return True
    return not ended and "," in text


def join_address(rows: Sequence[Row]) -> str:
    """The rows as one line, a comma between them where none is printed."""
    # A capital i inside a word is the engine's l: "JIn", "BIk".
    parts = [re.sub(r"(?<=\b[A-Z])I(?=[a-z])", "l", row.text).strip().rstrip(",").strip() for row in rows]
    return ", ".join(p for p in parts if p)
