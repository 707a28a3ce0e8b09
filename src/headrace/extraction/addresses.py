# ruff: noqa: E501 - the tables of patterns read better unbroken
"""The merchant's address: the rows under the name that read like one."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from headrace.extraction.rows import Row, fold
from headrace.extraction.spelling import KNOWN, PLACES, put_right

_STREET = re.compile(
    r"(?i)\b(?:jalan|jln|j1n|jl|lorong|lrg|lot|l[o0]t|kompleks|compleks|medan|pusat|tower|bangunan|soho|taman|tmn|bandar|lebuh|persiaran|kampung|kg\.|mukim|seksyen|sek\.?|plaza|wisma|menara|batu|desa|block|blk|unit|floor|flr|level|"
    r"ground|street|st\.|road|rd|avenue|ave|lane|drive|boulevard|blvd|highway|hwy|mall|shopping|suite|square|park|po box|"
    r"stra(?:ß|ss)e|str\.|platz|allee|weg|gasse|rue|place|quai|autoroute|route d[eu]|chauss[eé]e|chemin|calle|c/|avda|avenida|plaza|via|viale|piazza|corso|largo|rua|travessa|pra[cç]a|straat|laan|plein|"
    r"ul\.|aleja|al\.|adrese|iela|mah\.|cad\.|sok\.|cd\.|sk\.)(?=[\W\d]|$)|\b(?:ss|pju|usj|pjs|sg)\s?\d{1,2}[a-z]?/\d|\bpt\s?\d{4,}|\w{3,}(?:straße|strasse|straat|weg|laan|gasse)\b"
)
_PLACE = re.compile(
    r"(?i)\b(?:selangor|johor|kuala lumpur|penang|pulau pinang|perak|kedah|melaka|sabah|sarawak|pahang|kelantan|terengganu|perlis|negeri sembilan|"
    r"putrajaya|malaysia|petaling jaya|shah alam|klang|subang|cheras|kepong|singapore|new zealand|auckland|deutschland|france|espa[nñ]a|italia|nederland|polska|usa|"
    r"w\.?\s?p\.?|d\.\s?e\b\.?|darul (?:ehsan|takzim|ridzuan))\b"
)
_POSTCODE = re.compile(
    r"(?<![\d./-])(?:\d{5}(?=\.?\s?[^\W\d_]{2})|\d{5}|\d{2}-\d{3}|\d{4}\s?[A-Z]{2}\b|[A-Z]{1,2}\d[\dA-Z]?\s?\d[A-Z]{2}|\d{4}-\d{3})(?:(?![\d./-])|(?=\.\s?[^\W\d_]))"
)
_HOUSE = re.compile(r"(?i)^\W*(?:n[o0]\b\.?|lot\b|unit\b|\d{1,4}[a-z]?\s?[,-])")
_STREET_AND_NUMBER = re.compile(  # every word ends before the next one can begin: no row takes long
    r"(?i)^\W*(?:\d{1,4}[a-z]?,?\s+[^\W\d_][\w'.-]*(?:\s[^\W\d_][\w'.-]*){0,3}|"
    r"[^\W\d_]+(?:[ .'-]{1,2}[^\W\d_]+){0,4}[ .]{0,2}\d{1,4}(?:-\d{1,3}){0,2}\s?[a-z]?)\W*$"
)
_TOWN = re.compile(
    r"(?<![\d./-])(?:\d{5}|\d{2}-\d{3}|\d{4}\s?[A-Z]{2}\b|\d{3}\s\d{2}|\d{4}-\d{3}|[1-9]\d{3})\s+[^\W\d_]{3,}|"
    r"[^\W\d_]{3,}\s*,?\s+(?:[A-Z]{1,2}\d[\dA-Z]?\s?\d[A-Z]{2}|(?:[A-Z]{2}\s+)?\d{5}|\d{3}-\d{4})\W*$"
)
_STOP = re.compile(
    r"(?i)\b(?:tel|te1|fax|phone|ph|hotline|gst|sst|vat|nip|btw|kvk|tax|invoice|receipt|cashier|date|time|bill|www|e-?mail|co\.?\s?(?:reg\.?\s?)?no|company no|company reg|roc|reg\.? no|"
    r"order|table|cash sale|member|customer|document|paragon|p\.? ?iva|nif|cif|siret|counter|terminal|shopping hours|operat\w*|sold to|bill to|tax inv|doc\.? no|"
    r"qty|item|station|invo|sales? ?person|thank|mobile|whats\s?app\w*|number|staff|tax\s?in\w*|pay by|carry out|take away|dine in)\b|@|\.com|(?<!no)(?<!no )[:#]\s*\d"
)
_PHONE_AT_END = re.compile(r"(?:\+\d{1,3}[ -]?)?\(\d{2,4}\)\s?\d[\d -]{5,}\W*$")
_MONEY_AT_END = re.compile(r"\d[.,]\d{2}(?:\s?[A-Z]{1,3})?\W*$")
_TOWN_BEHIND_CODE = re.compile(r"^\W*\d{4,5}(?:\W*$|[^\W\d_]{4,})")
_COUNTRY_AT_END = re.compile(r"(?i)\b(?:malaysi\w?|singapore|deutschland|france|italia|nederland|polska)\W*$")
_UNIT = re.compile(
    r"#\s?[A-Z]?\d{1,3}[A-Z]?\s?-\s?\d|\b[A-Z]{0,2}\d{0,2}-\d{1,3}[A-Z]?\s?:|(?i:no\.?\s?:)"
)  # "#02-03", "F1-01: 6", "Lot No.:"
_STATION = re.compile(r"(?i)^\W*(?:shell|petron\w*|bhp\w*|caltex|service|gas|bus|train|railway|metro) station\b")
_NUMBER_ALONE = re.compile(r"(?i)^\W*(?:n[o0]|lot|unit)\b[\s.:]*[\dA-Z&,/ -]{1,18}\W*$")
_BUILDING = re.compile(  # a building's name, or a street's: it begins so, or it ends so and is short
    rf"(?:\W*{_STREET.pattern.removeprefix('(?i)')}.{{0,36}}|(?:[^\W\d_]+\s){{1,2}}(?:mall|plaza|tower|complex|building))\W*$",
    re.IGNORECASE,
)
_TITLE = re.compile(r"(?i)^\W*(?:hq|head office|address|addr?|adresse|alamat|outlet)\s*(?:add(?:ress)?)?\s*:\s*")
_REGISTRATION = re.compile(r"^\W*[A-Z]{0,3}\d[\dA-Z]{3,}\s?-?\s?[A-Z]?\W*$")


def is_address(text: str) -> bool:
    """True for a row that reads like part of an address."""
    if _STREET.search(text) and (any(c.isdigit() for c in text) or "," in text):
        return True
    if _POSTCODE.search(text) and re.search(r"[^\W\d_]{3,}|\d{5} [A-Z]{2}\b", text):
        return True
    return bool(_HOUSE.match(text) and re.search(r"[^\W\d_]{3,}", text)) or bool(_PLACE.fullmatch(text.strip(" .,")))


def is_street_above_town(text: str, following: str) -> bool:
    """True for a few words with a house number, above a row with a postcode: `Kastanienallee 12`, `27 Welsh Back`."""
    return bool(_STREET_AND_NUMBER.match(text)) and bool(_TOWN.search(following))


def reads_like_place(text: str) -> bool:
    """True where a street or a place is named, though nothing else says address."""
    words = re.findall(r"[^\W\d_]{2,}", fold(text))
    return bool(_STREET.search(text) or _PLACE.search(text)) or (len(words) > 1 and all(w in PLACES for w in words))


@dataclass(frozen=True, slots=True)
class AddressRow:
    """One row of an address: what it says, with misread letters put right and stamps left out."""

    row: Row
    text: str


def address_rows(rows: Sequence[Row], after: int, *, local: bool) -> list[AddressRow]:
    """The rows of the address that follows the row with index `after`; empty where nothing reads like one.

    It starts within six rows, at the first row that reads like an address, and runs to the first that is something else.

    Args:
        rows: the whole document.
        after: the last row of the merchant's name.
        local: the words listed in `spelling` are to be expected.
    """
    seen = [
        AddressRow(row, _before_stop(put_right(_own_text(row), local=local))) for row in rows[after + 1 : after + 14]
    ]
    out: list[AddressRow] = []
    strong = False
    for at, entry in enumerate(seen[:12]):
        row, text = entry.row, entry.text.strip()
        following = seen[at + 1].text if at + 1 < len(seen) else ""
        if out and row.page != out[-1].row.page:
            break
        if not out and row.index > after + 6:
            break
        if stops(text) or (_REGISTRATION.match(text) and not _TOWN_BEHIND_CODE.match(text)):
            if out:
                break
            continue
        if out and _COUNTRY_AT_END.search(out[-1].text):
            break
        if (is_address(text) or is_street_above_town(text, following)) and not (not out and _in_brackets(text)):
            out.append(entry)
            strong = strong or bool(_POSTCODE.search(text) or _PLACE.search(text) or _STREET.search(text))
        elif out and (
            _continues(out[-1].text, text, ended=any(_POSTCODE.search(r.text) for r in out))
            or _leads_to_postcode(text, following, out)
        ):
            out.append(entry)
            strong = strong or reads_like_place(text)
        elif out:
            break
        if len(out) == 7:
            break
    return _with_opening(seen, out) if strong else []


def _before_stop(text: str) -> str:
    """`81750 Johor Bahru. Tel: 07-387 3322` without what follows the address in the same row."""
    found = _STOP.search(text) or _PHONE_AT_END.search(text)
    if found and found.start() >= 12 and is_address(text[: found.start()]):
        return text[: found.start()].rstrip(" -,")
    return text


def _own_text(row: Row) -> str:
    """The row without stamps and strays: cells much taller than the first, and single marks far to the right."""
    first = row.cells[0]
    height = first.bottom - first.top
    kept = [first.text]
    for cell in row.cells[1:]:
        stamp = cell.bottom - cell.top > 1.5 * height
        stray = len(cell.text) <= 2 and cell.left - first.right > 0.03
        if not stamp and not stray:
            kept.append(cell.text)
    return " ".join(kept)


def _in_brackets(text: str) -> bool:
    """True for `(SHOP 12345)`: another name, not where an address begins."""
    return text.lstrip().startswith("(") and text.rstrip().endswith(")")


def _with_opening(seen: Sequence[AddressRow], out: list[AddressRow]) -> list[AddressRow]:
    """With the rows above that begin the address without saying so: `No.1,`, `Menara Dion,`."""
    if not out:
        return out
    at = next(i for i, entry in enumerate(seen) if entry.row.index == out[0].row.index)
    while at > 0:
        before = seen[at - 1]
        again = fold(before.text).strip(" .,") in fold(out[0].text)
        opens = _NUMBER_ALONE.match(before.text) or (_BUILDING.match(before.text) and not again)
        if not opens or stops(before.text) or before.row.page != out[0].row.page:
            break
        out = [before, *out]
        at -= 1
    return out


def stops(text: str) -> bool:
    """True for a row that says something else: telephone, tax number, heading of the receipt, goods."""
    if _MONEY_AT_END.search(text):
        return True
    return bool(_STOP.search(_UNIT.sub(" ", text)) and not _STATION.search(text))


def _leads_to_postcode(text: str, following: str, so_far: Sequence[AddressRow]) -> bool:
    """A row of words between the street and the row with the postcode."""
    if any(_POSTCODE.search(r.text) for r in so_far):
        return False
    return bool(_POSTCODE.search(following)) and not stops(following) and len(text) <= 44


def _continues(before: str, text: str, *, ended: bool) -> bool:
    """A row without marks of an address is part of it between its rows, and as a short town or state at its end."""
    if not re.search(r"[^\W\d_]{3,}", text) or len(text) > 44:
        return False
    if before.rstrip().endswith((",", "-", "&")):
        return True
    last, first = before.split()[-1], text.split()[0]
    if any(m.start() < len(last) < m.end() for m in _PLACE.finditer(f"{last} {first}")):
        return True  # the name of a town over two rows
    if _PLACE.search(text) and len(text.split()) <= 5:
        return True
    return not ended and ("," in text or reads_like_place(text))


def how_sure(rows: Sequence[AddressRow]) -> float:
    """Trust in an address: it begins with a number or a lot, it has a postcode, and its words are known ones."""
    text = " ".join(entry.text for entry in rows)
    words = re.findall(r"[^\W\d_]{3,}", fold(text))
    unknown = sum(w not in KNOWN for w in words) / max(1, len(words))
    sure = 0.7 + (0.1 if _HOUSE.match(rows[0].text) or rows[0].text[:1].isdigit() else 0.0)
    sure += 0.05 if _POSTCODE.search(text) else 0.0
    return sure - 0.35 * unknown


def join_address(rows: Sequence[AddressRow]) -> str:
    """The rows as one line, a comma between them where none is printed."""
    # A capital i inside a word is the engine's l: "JIn", "BIk".
    parts = [re.sub(r"(?<=\b[A-Z])I(?=[a-z])", "l", entry.text).strip().rstrip(",").strip() for entry in rows]
    text = ", ".join(p for p in parts if p)
    return _TITLE.sub("", text)
