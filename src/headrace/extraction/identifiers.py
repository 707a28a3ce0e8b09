# ruff: noqa: E501 - the tables of patterns read better unbroken
"""Numbers that name things: the seller's tax number, with its check digits where the country has them, and the receipt's."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import lru_cache

import stdnum
from stdnum.exceptions import InvalidChecksum, ValidationError

from headrace.extraction.rows import Row


@dataclass(frozen=True, slots=True)
class FoundText:
    """A piece of text with its place and the words that announced it."""

    value: str
    raw: str
    row: Row
    start: int
    end: int
    label: str | None


# Behind each label, the countries whose numbers it announces; none where the number has no check digits that we know.
_TAX_LABELS: tuple[tuple[str, str], ...] = (
    (r"ust-?id(?:-?nr)?|uid(?:-?nr)?|atu(?=\d)", "de at"), (r"steuer-?nr|st\.?-?nr", ""), (r"mwst-?nr", "ch de at"), (r"siret", ""), (r"tva(?:\s*intra\w*)?", "fr be lu"),
    (r"cod(?:\s*de\s*inregistrare)?\s*fiscal|c\.?i\.?f\.?\s*ro|cui", "ro"), (r"cif|c\.i\.f", "es ro"), (r"nif|n\.?i\.?f", "es pt"), (r"nipc|contribuinte", "pt"),
    (r"p\.?\s*iva|partita iva", "it"), (r"btw(?:-?nr)?", "nl be"), (r"nip", "pl"), (r"cnpj", "br"), (r"gstin", "in"), (r"rfc", "mx"), (r"abn", "au"),
    (r"cvr(?:-?nr)?|se-?nr", "dk"), (r"org\.?\s*nr", "se no"), (r"y-?tunnus", "fi"), (r"di[cč]", "cz sk"), (r"ad[oó]sz[aá]m", "hu"), (r"oib", "hr"),
    (r"αφμ|α\.φ\.μ|afm", "gr"), (r"инн", "ru"), (r"vkn|vergi\s*no", "tr"), (r"pvn\s*\w*\s*numurs", "lv"), (r"統一編號|統編", "tw"), (r"登録番号", ""),
    (r"gst(?:\s*reg(?:istration)?)?|6st", ""), (r"sst", ""), (r"vat(?:\s*reg)?", "gb ie"), (r"tin", ""),
)  # fmt: skip
TAX_ID = re.compile(
    rf"(?i)(?<![^\W\d_])(?:{'|'.join(label for label, _ in _TAX_LABELS)})(?![^\W\d_])[\s.:#-]*(?:ref|reg\w*)?[\s.:#-]*(?:no|nr|number|id|1d|n°|num)?[\s.:#)-]*"
    r"((?:[A-Z]{1,3}[\s-]?)?\d[\d\s./-]{5,18}\d(?:B\d{2})?[A-Z]?|[A-Z]-?\d{7,8}|[A-Z&]{3,4}\d{6}[A-Z0-9]{3}|\d{2}[A-Z]{5}\d{4}[A-Z]\w{3})"
)
_LABEL_COUNTRIES = tuple((re.compile(rf"(?i)^\W*(?:{label})"), countries.split()) for label, countries in _TAX_LABELS)
_REGISTERS = {"se": "orgnr", "no": "orgnr", "fi": "ytunnus"}  # printed in place of the tax number
_EUROPEAN = re.compile(
    r"(?i)^(AT|BE|BG|CH|CY|CZ|DE|DK|EE|EL|ES|FI|FR|GB|HR|HU|IE|IT|LT|LU|LV|MT|NL|NO|PL|PT|RO|SE|SI|SK)\W?\w*\d{3}"
)


def find_tax_id(rows: Sequence[Row]) -> FoundText | None:
    """The tax number behind its label (GST ID, VAT, NIP, USt-IdNr, P.IVA ...); one whose check digits fit before one."""
    first: FoundText | None = None
    for row in rows:
        for m in TAX_ID.finditer(row.text):
            value = re.sub(r"\s+", " ", m[1]).strip(" .-/")
            if not 7 <= sum(c.isdigit() for c in value) <= 16:
                continue
            label = m[0][: m.start(1) - m.start()].strip(" :.#")
            found = FoundText(value, m[0], row, m.start(1), m.end(1), label)
            if check_digits_fit(value, label):
                return found
            first = first or found
    return first


@lru_cache(maxsize=256)
def check_digits_fit(number: str, label: str | None) -> bool | None:
    """Whether a tax number's check digits are right in a country that its letters or its label name.

    Returns:
        None where neither names a country whose numbers have check digits, or the number has another form.
    """
    countries: Collection[str] = ()
    if named := _EUROPEAN.match(number):
        countries = (named[1].lower().replace("el", "gr"),)
    elif label:
        countries = next((c for pattern, c in _LABEL_COUNTRIES if pattern.match(label)), ())
    answers = [_fits(number, country) for country in countries]
    return True if True in answers else False if False in answers else None


def _fits(number: str, country: str) -> bool | None:
    """The country's own check; None where the number has not the form of that country's numbers."""
    module = stdnum.get_cc_module(country, _REGISTERS.get(country, "vat"))
    if module is None:
        return None
    try:
        module.validate(number)
    except InvalidChecksum:
        return False
    except ValidationError:
        return None
    return True


_NUMBER_LABEL = re.compile(
    r"(?i)\b(?:(?:tax\s*)?inv(?:oice)?|receipt|bill|doc(?:ument)?|check|chk|cash\s*(?:inv|bill|sales?)|trans(?:action)?|trx|order|rechnung(?:s-?(?:nr|nummer))?|beleg(?:nummer)?|bon(?:nr|nummer)?|"
    r"facture|ticket|factura(?:\s*simplificada)?|fatura(?:\s*simplificada)?(?:\s*f[srt])?|nota|nfc-?e|recibo|ricevuta|kvitt(?:o|ering)?|kuitti|doklad|[uú][cč]tenka|nyugta|чек|"
    r"documento|fattura|scontrino|factuur|factuurnummer|paragon|wydr|rcpt|slip|resit|commande|fi[sş])\b[\s.:#-]*(?:(?:no|nr|num(?:ber|mer)?|n°|nº|n(?=\.)|id|#)(?![^\W\d_]))?[\s.:#°-]*"
    r"((?=[A-Z0-9/-]*\d)[A-Z0-9][A-Z0-9/-]{2,24})(?![.,]\d)"
)


def find_receipt_number(rows: Sequence[Row], taken: Sequence[tuple[int, int, int]]) -> FoundText | None:
    """The number of the receipt or invoice; dates and times (`taken`: row, start, end) are no numbers."""
    best: tuple[int, FoundText] | None = None
    for row in rows:
        for m in _NUMBER_LABEL.finditer(row.text):
            if any(r == row.index and m.start(1) < e and s < m.end(1) for r, s, e in taken):
                continue
            label = m[0][: m.start(1) - m.start()].strip(" :.#-")
            rank = 0 if re.search(r"(?i)inv|receipt|rechn|beleg|fact|fatura|bill|doc|resit", label) else 1
            rank += 0 if re.search(r"(?i)no|nr|num|#|id|:|n[°º]", m[0]) else 2
            found = FoundText(m[1], m[0], row, m.start(1), m.end(1), label)
            if best is None or rank < best[0]:
                best = (rank, found)
    return best[1] if best else None
