# ruff: noqa: E501 - the tables of patterns read better unbroken
"""Who sold it: the name in the head of the receipt, its telephone and web page.

The name is the best of the first rows: a legal form (SDN BHD, GmbH, Ltd, S.A.) speaks loudest, then a word of trade, the
place, the size of the print, and whether the name comes back elsewhere. Headings, addresses, numbers and pencil notes
speak against a row. A receipt whose head is not in the picture has no merchant.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from headrace.documents.text import Polygon
from headrace.extraction.addresses import is_address, is_street_above_town, reads_like_place
from headrace.extraction.identifiers import TAX_ID, FoundText
from headrace.extraction.rows import Row, fold

_LEGAL = re.compile(
    r"(?i)(?<![^\W\d_])(?:[s5][do0u]n\.?\s*,?\s*[bd][hn]?[dou][il1]?\.?|SB(?=\s?\(\d)|[S5]/[B8]|PLT|S\.B\.|BHD\.?|P(?:TE|VT|TY)\.?\s*LTD\.?|LTD\.?|LIMITED|LLC|L\.L\.C\.|INC\.?|CORP\.?|"
    r"PLC|LLP|GMBH(?:\s*&\s*CO\.?\s*KG)?|AG|KG|OHG|e\.?K\.|S\.?A\.?S\.?|S\.?A\.?R\.?L\.?|S\.A\.U?\.?|S\.?L\.?U?\.(?=\W|$)|S\.?[rR]\.?[lL]\.?|S\.?p\.?A\.?|"
    r"LDA\.?|LTDA\.?|B\.?V\.?|N\.V\.|[S5]p\.?\s*z\s*[o0]\.?\s*[o0]\.?(?:\s*Sp\.?\s*[jk]\.?)?|S\.A\.|SIA|UAB|O[UÜ]|A/S|ApS|ASA|AB|Oy|s\.r\.o\.|a\.s\.|"
    r"Kft\.?|S\.?A\.? de C\.?V\.?|P\.?U\.?H\.?|F\.?H\.?U\.?)(?![^\W\d_])|株式会社|有限会社|有限公司|\bТОВ\b|\bООО\b|\bЗАО\b|\bПАО\b"
)
# Short forms that are also plain words or initials count only at the end of a row.
_WEAK_LEGAL = re.compile(r"(?i)^(?:AG|AB|KG|SA|SAS|SL|SB|BV|OU|SIA)$")
_TRADE = re.compile(
    r"(?i)\b(?:restaurants?|restoran|restaurante|ristorante|caf[eé]|kopitiam|coffee|bakery|bakeries|confectionery|mart|market|supermarkt|supermarket|"
    r"hypermarket|supermercado|supermarch[eé]|sklep|store|stores|shop|hardware|trading|enterprise|electrical|stationery|stationers?|books?|pharmacy|"
    r"farmasi|apotheke|pharmacie|farmacia|apteka|clinic|klinik|h[oô]tel|garage|taxi|bar|pub|bistro|pizza|pizzeria|sushi|house|kitchen|services?|motors?|petrol|"
    r"petroleum|station|marketing|holdings?|industries|furniture|fashion|boutique|salon|spa|gym|foods?|frozen|seafood|gift|gallery|auto|"
    r"perniagaan|kedai|pasaraya|pasar raya|pasar|syarikat|restaurants|bazar|center|centre|company|co\.|group|sdn|mini ?market|wholesale|cash & carry|"
    r"b[aä]ckerei|metzgerei|gasthaus|boulangerie|panader[ií]a|drogerie|baumarkt|tankstelle|station service|libreria|librairie|bookstore|toys|club)\b"
)
_HEADING = re.compile(
    r"(?i)\b(?:tax inv\w*|simplified|invoice|inv[o0q]ice|receipt|resit|cash sales?|cash bill|bill|document|customer(?:'s)? copy|merchant copy|duplicate|copy|original|"
    r"thank|welcome|shopping hours|terima|selamat|paragon|factura|facture|fattura|fatura|ticket|kassenbon|rechnung|quittung|beleg|scontrino|bon|"
    r"documento|comprobante|nota fiscal|kvitto|order|table|terminal|cashier|operator|server|staff|member|date|time|guest|pax|qty|item|"
    r"desc\w*|amount|amt|doc|sales ?p\w+|code|posted|waiter|counter|name|licensee|outlet|u\.?/?p|rm|disc\w*|sales?|goods|returnable|amount|total|price|cash(?! ?(?:&|and) ?carry)|visa|page|tel|fax|phone|hotline|no refund|trans(?:action)?|check|ref|branch|open|goods sold|visit us|"
    r"gst|vat|sst|reg(?:istration)? no|company (?:no|reg)|co\.? ?(?:reg|no)|brn|roc|email|e-mail|dine in|take ?away|eat in|carry out|printed|pump|"
    r"hoa don|fis|tarih|saat|katra diena|klient|gratis|prepay)\b|領収|レシート|伝票|テーブル|收据|发票"
)
_REGISTRATION = re.compile(
    r"(?i)^\W*(?:co\.?\s*(?:reg)?\.?\s*no\.?|company\s*(?:reg\.?)?\s*(?:no\.?)?|reg\.?\s*no\.?|br\s*no\.?|roc\s*no)?\W*[A-Z]{0,3}\d[\dA-Z ]{3,}\s?-?\s?[A-Z]?\W*$"
)
# A name with its register number in brackets: "KT WONG TRADING (001904043-H)".
_REGISTERED_NAME = re.compile(r"^(\W*[^\W\d_][^\d(]{4,}?)\s*\(\s*(?:[A-Z]{1,3}\s?)?\d{5,12}\s?-?\s?[A-Z]\s*\)?\W*$")
_REGISTERED = re.compile(r"\(\s?(?:[A-Z]{1,3}\s?)?\d{5,12}\s?-\s?[A-Z]\s?\)")
_TIMES_PRICE = re.compile(r"^\W*\d{1,3}\s?[xX×*]\s?\d")
_TRAILING_NUMBER = re.compile(
    r"[\s,]*[(\[]?\s*(?:Co\.?\s*No\.?:?\s*)?[A-Z]{0,3}\d{2}[\dA-Z/]{2,}\s*-?\s*[A-Z]?\s*[)\]]?\s*(?:\([A-Z0-9]+\))?\s*$"
)
_WEB = re.compile(
    r"(?i)(?<![@\w])(?:https?://)?(?:www\.)?([a-z0-9][a-z0-9-]*(?:\.[a-z0-9-]+)*\.(?:com|net|org|my|sg|de|fr|es|it|nl|pl|uk|nz|au|at|ch|be|pt|br|jp|eu|co|lv|us|in)(?:\.[a-z]{2})?)(?![\w@])"
)
_PHONE = re.compile(
    r"(?i)\b(?:tel(?:ephone|efon|efono|[eé]fono|\.)?|te1|t[eé]l|phone|ph|hp|h/p|tlf|tfno|hotline|call)\b\.?\s*(?:&?\s*fax)?\s*(?:no\.?)?\s*[:.#-]*\s*"
    r"(\+?[\d(][\d\s().-]{5,18}\d)"
)
_BARE_PHONE = re.compile(
    r"(?<![\d.,/-])((?:\+\d{2}[\s-]?|\(?0\d{1,3}\)?[\s-]|\(\d{3}\)\s?)\d[\d\s-]{5,12}\d)(?![\d.,/-])"
)
_LETTERS = re.compile(r"[^\W\d_]")
_MONEY = re.compile(r"\d[.,]\d{2}(?!\d)|[€$£¥₹]\s?\d")
_TRADE_THEN_BRACKET = re.compile(_TRADE.pattern + r"\w?\s*\(")
_CUSTOMER = re.compile(r"(?i)^\W*(?:bill to|sold to|customer|deliver to|ship to|attn|m/s|kunde|client|klant)\b")
_ADDRESSEE = re.compile(
    r"(?i)^\W*(?:client[ea]?|customer|guest|kunde|gast|hu[eé]sped|ospite|klant|klient|g[aä]st|kund|passenger|fahrgast|from|to|fr[aå]n|till|von|"
    r"nach|van|naar|desde|hasta|od|do|da|di|de|bill to|sold to|ship to)\s*:"
)
_THING_AND_NUMBER = re.compile(
    r"(?i)^\W*(?:surtidor|pump|zapfs[aä]ule|pompe|pompa|pomp|distributore|dystrybutor|stanowisko|bomba|table|tisch|mesa|tavolo|tafel|stolik|bord|"
    r"room|zimmer|chambre|habitaci[oó]n|camera|kamer|pok[oó]j|rum|till|kasse|kassa|kasa|caisse|cassa|caja|reji)\W*(?:n[ro°]\W*)?\d{1,4}\W*$"
)
_INVOICE_HEADING = re.compile(r"(?i)\binv[o0q]ice\b|\bresit\b|\breceipt\b")
_COLUMNS = re.compile(
    r"(?i)\b(?:qty|0ty|quantity|item|items|desc\w*|price|u/?price|amount|amt|ant|total|code|disc|tax|u\.p|rm|artikel|menge|preis|prix|precio|importe|cant)\b"
)
LOWEST_SCORE = 1.6
HEAD_ROWS = 16


@dataclass(frozen=True, slots=True)
class NameCandidate:
    """A reading of the merchant's name."""

    value: str
    raw: str
    score: float
    rows: tuple[Row, ...]
    rule: str

    @property
    def polygon(self) -> Polygon:
        """The rectangle around its rows."""
        shapes = [row.polygon() for row in self.rows]
        left, right = min(p[0][0] for p in shapes), max(p[1][0] for p in shapes)
        top, bottom = min(p[0][1] for p in shapes), max(p[2][1] for p in shapes)
        return ((left, top), (right, top), (right, bottom), (left, bottom))


def legal_form(text: str) -> re.Match[str] | None:
    """The last legal form of the text, short ones only where nothing but a number follows."""
    found = None
    for m in _LEGAL.finditer(text):
        if _WEAK_LEGAL.match(m[0]) and (
            (m.start() == 0 and m[0] not in ("SIA",)) or (_LETTERS.search(text[m.end() :]) and m[0] != "SIA")
        ):
            continue
        if found is None or text[m.start() - 1 : m.start()] != "(":
            found = m
    return found


def end_of_head(money_rows: Sequence[int], rows: int) -> int:
    """The row where the goods begin: the first with an amount that another follows within three rows."""
    return next((first for first, second in pairwise(money_rows) if second - first <= 3), rows)


def name_candidates(rows: Sequence[Row], first_amount_row: int) -> list[NameCandidate]:
    """Names in the head of the document, the best first.

    Args:
        rows: the whole document.
        first_amount_row: where the goods begin (`end_of_head`).
    """
    columns = next((r.index for r in rows if len(set(_COLUMNS.findall(r.text.lower()))) >= 3), len(rows))
    end = min(HEAD_ROWS, max(first_amount_row, 0), columns)
    head = [r for r in rows[:end] if r.page == rows[0].page]
    if not head:
        return []
    usual = max(1e-9, median(r.height for r in rows))
    everything = [re.sub(r"[\W_]+", "", fold(r.text)) for r in rows]
    worn = median(r.confidence for r in head) < 0.75
    scored: list[tuple[float, int, str]] = []
    rank = 0
    for at, row in enumerate(head):
        text = _own_words(row)
        score, counts = _score(text, row, head, at, usual, everything)
        if counts:
            score += max(0.0, 2.0 - 0.35 * rank)
            rank += 1
        if worn and not legal_form(text) and not _TRADE.search(text):
            score -= 2.0  # among rows that nobody can read, one word is no name
        before = [r.text for r in head[2:at]]
        if any(_CUSTOMER.search(r.text) for r in head[:at]):
            score -= 2.5
        elif any(_INVOICE_HEADING.search(t) for t in before):
            # Below the heading stands the customer, save where no company is named above it.
            score -= 2.5 if any(legal_form(r.text) for r in head[:at]) or not legal_form(text) else 1.0
        if legal_form(text) and any(is_address(t) for t in before):
            score -= 1.2 if _REGISTERED.search(text) else 2.5
        if at + 1 < len(rows) and _TIMES_PRICE.match(rows[row.index + 1].text):
            score -= 3.0  # goods, where the head was cut off
        scored.append((score, at, text))
    out = []
    for score, at, text in scored:
        if score > 0:
            first, last = _extent(head, at, text, usual)
            raw = " ".join(_own_words(r) for r in head[first : last + 1])
            name = tidy_name(raw)
            if len(_LETTERS.findall(name)) >= 2:
                rule = "merchant.legal-form" if legal_form(raw) else "merchant.head"
                out.append(NameCandidate(name, raw, score, tuple(head[first : last + 1]), rule))
    return sorted(out, key=lambda c: (-c.score, c.rows[0].index))


def how_sure(names: Sequence[NameCandidate]) -> float:
    """Trust in the first of the candidates: what speaks for it, how far the next is, how high it stands, rivals beside it."""
    best = names[0]
    rows = {row.index for row in best.rows}
    rivals = [n for n in names[1:] if not rows & {row.index for row in n.rows}]
    margin = best.score - (rivals[0].score if rivals else 0.0)
    beside = any(r.score > 2.0 and abs(r.rows[0].index - best.rows[-1].index) <= 1 for r in rivals)
    sure = 0.6 + 0.02 * min(best.score, 7.0) + 0.05 * min(margin, 4.0)
    return max(0.1, sure - 0.04 * min(best.rows[0].index, 6) - (0.08 if beside else 0.0))


def _own_words(row: Row) -> str:
    """The row without stamps, and without cells that are a heading or a number, where another cell holds a legal form."""
    first = row.cells[0]
    cells = [c for c in row.cells if c is first or c.bottom - c.top < 1.5 * (first.bottom - first.top)]
    if len(cells) == 1:
        return first.text
    if len(cells) > 1:
        for cell in cells:
            legal = legal_form(cell.text)
            if legal and len(_LETTERS.findall(cell.text)) >= len(_LETTERS.findall(legal[0])) + 3:
                return cell.text
        plain = [
            c.text for c in cells if not _HEADING.search(c.text) and sum(x.isdigit() for x in c.text) * 2 <= len(c.text)
        ]
        plain = [t for t in plain if not is_address(t) and t.count(",") < 1] or plain
        if plain:
            return " ".join(plain)
    return row.text


def _score(
    text: str, row: Row, head: Sequence[Row], at: int, usual: float, everything: Sequence[str]
) -> tuple[float, bool]:
    """Points of one row, and whether it counts as a row of words when places are ranked."""
    registered = _REGISTERED_NAME.match(text)
    if registered:
        text = registered[1]
    letters = len(_LETTERS.findall(text))
    digits = sum(c.isdigit() for c in text)
    legal = legal_form(text)
    if letters < 2 or (_REGISTRATION.match(text) and digits >= 4):
        return -5.0, False
    if _THING_AND_NUMBER.match(row.text) or _ADDRESSEE.match(row.text):
        return -5.0, False
    score = 1.2 if registered and not legal else 0.0
    if letters < 3:
        score -= 1.5
    if legal and letters > len(_LETTERS.findall(legal[0])):
        score += 3.0
    elif legal:
        score += 3.0 if at > 0 and not _HEADING.search(head[at - 1].text) else 0.5
    if _HEADING.search(text):
        score -= 1.0 if legal or _TRADE.search(text) else 3.5
    trade = _TRADE.search(text)
    words = re.findall(r"[^\W\d_]{2,}", text)
    if trade and not legal and words and all(_TRADE.fullmatch(w) for w in words):
        score -= 1.2  # "TRADING", "BISTRO & CAFE": part of a name
    elif trade:
        score += 1.0
    if _WEB.search(text) or "@" in text:
        score -= 2.5 if not legal else 0.0
    if _BARE_PHONE.search(text) or _PHONE.search(text) or TAX_ID.search(text):
        score -= 3.0
    below = [r.text for r in head[at + 1 : at + 3]]
    if is_address(text) and not legal:
        score -= 3.0 if not trade else 1.5
    elif at > 0 and below and not legal and not trade and is_street_above_town(text, below[0]):
        score -= 3.0
    elif not legal and not trade and (reads_like_place(text) or text.count(",") > 1):
        score -= 1.5
    if digits * 2.5 > letters and not legal:
        score -= 2.5
    if len(text) > 44 and not legal:
        score -= 1.5
    if text.islower() and not legal and not trade:
        score -= 1.2  # a note in pencil above the head
    if _MONEY.search(text):
        score -= 2.0
    if len(row.cells) > 1 and any(len(c.text) == 1 for c in row.cells):
        score -= 0.6  # scribbles
    if row.confidence < 0.75:
        score -= 1.0
    if row.height > 1.25 * usual:
        score += min(1.0, (row.height / usual - 1.0) * 0.8)
    if at + 1 < len(head):
        following = head[at + 1].text
        street = len(below) > 1 and is_street_above_town(*below)
        if _REGISTRATION.match(following) or is_address(following) or street or TAX_ID.search(following):
            score += 1.0
    if at == 0:
        score += 0.2
    if digits >= 4 and not legal:
        score -= 0.6
    bare = re.sub(r"[\W_]+", "", fold(text))
    if 4 <= len(bare) <= 24 and any(bare in other for other in everything[:at]):
        score -= 0.6  # part of a row above it
    elif 4 <= len(bare) <= 24 and sum(1 for other in everything if bare in other) > 1:
        score += 1.2
    return score, score > -2.0


def _extent(head: Sequence[Row], at: int, text: str, usual: float) -> tuple[int, int]:
    """The rows that the name fills: names break over two or three rows."""
    first = last = at
    legal = legal_form(text)
    if legal:
        while first > 0 and at - first < 2:
            so_far = " ".join(r.text for r in head[first : at + 1])
            own = so_far[: legal_form(so_far).start()] if legal_form(so_far) else so_far  # type: ignore[union-attr]
            words = [w for w in re.findall(r"[^\W\d_]{2,}", own) if w.lower() not in ("co", "company", "my", "the")]
            before = head[first - 1].text
            open_bracket = so_far.count(")") > so_far.count("(")
            broken = (
                so_far.startswith(("(", "&", "-"))
                or open_bracket
                or len(words) == 0
                or before.rstrip().endswith(("&", "-"))
            )
            only_trade = len(words) <= 1 and all(_TRADE.fullmatch(w) for w in words)
            if not (broken or only_trade or _TRADE_THEN_BRACKET.match(so_far)):
                break
            if _HEADING.search(before) or is_address(before) or _REGISTRATION.match(before) or before.islower():
                break
            first -= 1
        return first, last
    while last + 1 < len(head) and last - at < 2:
        after = head[last + 1].text
        words = re.findall(r"[^\W\d_]{2,}", after)
        single = len(words) == 1 and not any(c.isdigit() for c in after)
        so_far = " ".join(r.text for r in head[at : last + 1])
        continues = (
            so_far.rstrip().endswith(("&", "-", ",")) or so_far.count("(") > so_far.count(")") or after.startswith("&")
        )
        stacked = (
            single
            and head[at].height > 1.15 * usual
            and all(len(re.findall(r"[^\W\d_]{2,}", r.text)) == 1 for r in head[at : last + 1])
            and abs(head[last + 1].height - head[at].height) < 0.45 * head[at].height
        )
        legal_next = legal_form(after) is not None and len(words) <= 2
        trade_next = single and _TRADE.fullmatch(words[0]) is not None
        if not (continues or stacked or trade_next or legal_next) or _HEADING.search(after) or is_address(after):
            break
        last += 1
    return first, last


def tidy_name(text: str) -> str:
    """The name without what surrounds it: registration numbers, branch codes, "owned by", ornaments."""
    text = re.sub(
        r"(?i)^\W*(?:own(?:ed)? by|dimiliki(?: oleh)?|operated by|managed by|welcome to|bienvenue chez)\W*", "", text
    )
    text = re.sub(r"^[#*=~\s]*#?\d{4,}\s+(?=[A-Za-z])", "", text)
    legal = legal_form(text)
    if legal and legal.start() > 0:
        after = text[legal.end() :]
        place = re.match(r"\s*\([^\W\d_][^\d)]{3,}\)", after)
        text = text[: legal.end()] + (place[0] if place else "")
        text = re.sub(
            r"(?i)(?<![^\W\d_])[5s][do0u]n(\.?\s*)[bd][hn]?[dou][il1]?\b",
            lambda m: ("SDN" if m[0][1:3].isupper() else "Sdn") + m[1] + ("BHD" if m[0][1:3].isupper() else "Bhd"),
            text,
        )
        text = re.sub(r"\b[S5]/[B8]", "S/B", text)
    else:
        text = _TRAILING_NUMBER.sub("", text)
        if text.count(")") > text.count("("):
            text = re.sub(r"\s*\S*\)\s*$", "", text)
    text = re.sub(r"\b5p\.(?=\s*z\s*o)", "Sp.", text)
    text = re.sub(r"(?<=[a-z])I(?=[a-z])", "l", text)  # WorId
    text = re.sub(r"(?<=[A-Z]-)0\b|(?<=[A-Z])0(?=[A-Z])", "O", text)
    return text.strip(" \t*#=~-_.,:;|<>\"'“”") + ("." if legal and text.rstrip().endswith(".") else "")


def find_phone(rows: Sequence[Row]) -> FoundText | None:
    """The first telephone number: labelled before unlabelled."""
    for pattern, labelled in ((_PHONE, True), (_BARE_PHONE, False)):
        for row in rows[: HEAD_ROWS if not labelled else None]:
            if m := pattern.search(row.text):
                digits = sum(c.isdigit() for c in m[1])
                if 7 <= digits <= 15:
                    label = m[0][: m.start(1) - m.start()].strip(" :.") if labelled else None
                    return FoundText(m[1].strip(), m[0], row, m.start(1), m.end(1), label or None)
    return None


def find_website(rows: Sequence[Row]) -> FoundText | None:
    """The first web page, without those of card and till makers that follow "powered by"."""
    for row in rows:
        if re.search(r"(?i)powered|software|@", row.text):
            continue
        if m := _WEB.search(row.text):
            return FoundText(m[1].lower(), m[0], row, m.start(), m.end(), None)
    return None
