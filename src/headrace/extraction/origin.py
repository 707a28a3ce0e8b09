# ruff: noqa: E501 - the tables of patterns read better unbroken
"""Where a receipt comes from: country and language by what is printed on it. They settle date order and shared symbols."""

from __future__ import annotations

import re
from collections.abc import Sequence

from headrace.extraction.rows import Row, fold

# Country, strength, pattern over the row as printed, reason. Tax words and registers are stronger than names of places.
_EVIDENCE: tuple[tuple[str, float, str, str], ...] = (
    ("MY", 1.2, r"(?i)\bSDN\.?\s*BHD\b|\bS/B\b", "SDN BHD is a Malaysian company form"),
    ("MY", 0.8, r"(?i)\bMALAYSIA\b|\bKUALA LUMPUR\b|\bSELANGOR\b|\bJOHOR\b|\bPENANG\b|\bPERAK\b|\bJALAN\b|\bTAMAN\b|\bJLN\b", "Malaysian address"),
    ("MY", 1.0, r"(?i)\bRM\s?\d|\(RM\)|\bwww\.[\w.]+\.my\b|\.com\.my\b", "RM is Malaysian ringgit"),
    ("SG", 1.0, r"(?i)\bSINGAPORE\b|\bPTE\.?\s*LTD\b|\.com\.sg\b", "Singapore named"),
    ("ID", 1.0, r"(?i)\bINDONESIA\b|\bJAKARTA\b|\bNPWP\b|\.co\.id\b|\bRp\.?\s?\d", "Indonesian words"),
    ("VN", 1.2, r"(?i)\bVND\b|h[oó]a\s+(?:đ)?ơ?on\b|\bTHU GTGT\b|\bTI[EÊÉ]N\s+(?:M[AĂÄ]T|KH[AÁ]CH|TR[AÀÄ])|\bNg[aà]y b[aá]n\b|\bMST\b", "Vietnamese words"),
    ("TH", 1.2, r"[\u0e00-\u0e7f]{3,}|(?i:\bBANGKOK\b)", "Thai script"),
    ("JP", 1.4, r"[\u3040-\u30ff]{2,}|\d円", "Japanese script"),
    ("JP", 1.2, r"(?<![A-Z0-9])T\d{13}(?!\d)|登録番号", "Japanese invoice registration number"),
    ("JP", 0.8, r"(?i)[,\s](?:TOKYO|OSAKA|KYOTO|YOKOHAMA|NAGOYA|SAPPORO|FUKUOKA|KOBE)\s*,?\s*(?:\d{3}-\d{4}|JAPAN)|〒\s?\d{3}-?\d{4}|\b[a-z]{3,}-(?:ku|shi),", "Japanese address"),
    ("KR", 1.4, r"[\uac00-\ud7af]{2,}", "Korean script"),
    ("DE", 1.0, r"(?i)\bMwSt\b|\bUSt-?Id|\bSteuer-?Nr|\bGmbH\b|\bDeutschland\b|\bPFAND\b|stra(?:ß|ss)e\b|\bDE\s?\d{9}\b", "German words"),
    ("AT", 1.2, r"(?i)\bATU\s?\d{8}\b|\b[ÖO]sterreich\b", "Austrian tax number"),
    ("CH", 1.2, r"(?i)\bCHE-?\d|\bSchweiz\b|\bSuisse\b|\bSvizzera\b", "Swiss register number"),
    ("FR", 1.0, r"(?i)\bTVA\b|\bSIRET\b|\bTTC\b|\bFRANCE\b|\bFR\s?\d{11}\b|\brue\b.*|\bPARIS\b|\bavenue de\b|\bMERCI DE\b", "French words"),
    ("BE", 1.2, r"(?i)\bBELGI(?:UM|QUE|E|Ë)\b|\bBE\s?0\d{3}\.?\d{3}\.?\d{3}\b", "Belgian tax number"),
    ("ES", 1.1, r"(?i)\bNIF\b|\bCIF\b|\bESPA[NÑ]A\b|\bI\.?V\.?A\.?\s+INCLU|\bFactura simplificada\b|\bMADRID\b|\bBARCELONA\b", "Spanish words"),
    ("PT", 1.1, r"(?i)\bPORTUGAL\b|\bCONTRIBUINTE\b|\bLISBOA\b|\bFatura\b|\bNIPC\b", "Portuguese words"),
    ("BR", 1.3, r"(?i)\bCNPJ\b|\bNOTA FISCAL\b|\bNFC-?e\b|\bBRASIL\b|\bICMS\b|R\$", "Brazilian tax words"),
    ("IT", 1.1, r"(?i)\bP\.?\s*I\.?V\.?A\b|\bSCONTRINO\b|\bDOCUMENTO COMMERCIALE\b|\bITALIA\b|\bPiazza\b|\bPARTITA IVA\b", "Italian words"),
    ("NL", 1.1, r"(?i)\bBTW\b|\bKvK\b|\bNederland\b|\bNL\s?\d{9}B\d{2}|\bB\.V\.|\bKASSABON\b|\bTE BETALEN\b", "Dutch words"),
    ("PL", 1.3, r"(?i)\bPARAGON\b|\bNIP\b|\bPTU\b|\bSp\.? ?z ?o\.? ?o\b|\bPLN\b", "Polish tax words"),
    ("LV", 1.3, r"(?i)\bPVN\b|\bLATVIA\b|\bLV\d{11}\b", "Latvian tax words"),
    ("LT", 1.3, r"(?i)\bLIETUVA\b|\bPVM\b", "Lithuanian tax words"),
    ("CZ", 1.2, r"(?i)\bDI[ČC]\b|\bDPH\b|\bK[cč]\b", "Czech tax words"),
    ("HU", 1.2, r"(?i)\bNYUGTA\b|\bAFA\b|\bADÓSZ", "Hungarian words"),
    ("RO", 1.2, r"(?i)\bBON FISCAL\b|\bCOD FISCAL\b|\bLEI\b", "Romanian words"),
    ("TR", 1.3, r"(?i)\bKDV\b|\bTOPKDV\b|\bTOPLAM\b|\bT[UÜ]RK[Iİ]YE\b|\bF[Iİi][SŞ] NO\b", "Turkish tax words"),
    ("UA", 1.3, r"(?i)\bПДВ\b|ФІСКАЛЬН|\bГРН\b|\bЗНИЖКА\b|\bДО СПЛАТИ\b|\bПН \d{12}|\bOICKA|\b[OФ]ICKA", "Ukrainian words"),
    # An engine without Cyrillic writes the same shapes in Latin letters: СУМА, ПІДСУМОК, ЗНИЖКА; СУММА, КАССИР.
    ("UA", 1.0, r"\bCYMA\b|\bN[I1l][AДD]CYMOK|\b3H[MNИ][KЖX]KA\b|\bOTIBKA\b", "Ukrainian words in look-alike letters"),
    ("RU", 1.0, r"\bCYMMA\b|\bKACC[NMИ]P\b|\bHA[NЛ][NИ]YH", "Russian words in look-alike letters"),
    ("RU", 1.2, r"(?i)\bИНН\b|\bНДС\b|\bИТОГ\b|\bРУБ\b|\bККМ\b|\bMHH\s?\d|\bKKM\b|\bNTOR\b|\b8-800-\d{3}", "Russian tax words"),
    ("SE", 1.2, r"(?i)\bMOMS\b|\bKVITTO\b|\bOrg\.?nr\b|\bSVERIGE\b", "Swedish words"),
    ("NO", 1.2, r"(?i)\bMVA\b|\bNORGE\b|\bForetaksregister", "Norwegian words"),
    ("DK", 1.2, r"(?i)\bCVR\b|\bDANMARK\b|\bHERAF MOMS\b|\bApS\b|\bK[ØO]BENHAVN\b|\bDANKORT\b", "Danish words"),
    ("FI", 1.2, r"(?i)\bALV\b|\bY-?TUNNUS\b|\bKUITTI\b", "Finnish words"),
    ("GB", 1.1, r"(?i)\bVAT\s?(?:No|Reg|Number)?\.?:?\s*(?:GB)?\s?\d{3}\s?\d{4}\s?\d{2}\b|\bVAT \d{3} \d{3} \d{3}\b|\bUNITED KINGDOM\b|\bLONDON\b|£|\b[A-Z]{1,2}\d[\dA-Z]? ?\d[A-Z]{2}$", "British words"),
    ("IE", 1.2, r"(?i)\bIRELAND\b|\bDUBLIN\b|\bIE\s?\d{7}[A-Z]{1,2}\b", "Irish words"),
    ("NZ", 1.2, r"(?i)\bNEW ZEALAND\b|\bAUCKLAND\b|\bWELLINGTON\b|\bCHRISTCHURCH\b|\.co\.nz\b|\bGST\s?(?:No|Reg|#)?\.?\s?:?#?\s?\d{2,3}-\d{3}-\d{3}\b|NZ\$", "New Zealand GST number"),
    ("AU", 1.2, r"(?i)\bABN\b|\bAUSTRALIA\b|\.com\.au\b|\b(?:NSW|VIC|QLD)\s?\d{4}\b|\bA\.?C\.?N\b", "Australian register number"),
    ("CA", 1.2, r"(?i)\bCANADA\b|\bHST\b|\bPST\b|\bONTARIO\b|\bTVQ\b|\bTPS\b|\b[A-Z]\d[A-Z] ?\d[A-Z]\d\b", "Canadian tax words"),
    ("US", 1.1, r"\b(?:A[KLRZ]|C[AOT]|D[CE]|FL|GA|HI|I[ADLN]|K[SY]|LA|M[ADEINOST]|N[CDEHJMVY]|O[HKR]|PA|RI|S[CD]|T[NX]|UT|V[AT]|W[AIVY]),?\s+\d{5}(?:-\d{4})?\b", "state and ZIP code of the United States"),
    ("US", 0.35, r"\(\d{3}\)\s?\d{3}-\d{4}|\b\d{3}-\d{3}-\d{4}\b|(?i:\bU\.?S\.?A\b|\bSALES TAX\b|\bSTATE TAX\b)|/lb\b|(?i:\b\dlb\b)", "American phone number or pounds"),
    ("US", 0.7, r"\b[A-Z]{4,}(?:,? |[.,])(?:CT|NY|NJ|CA|TX|FL|IL|OH|GA|NC|SC|VA|WA|AZ|TN|MO|MD|WI|MN|KY|UT|NV|KS)\b(?![.\w])", "city and state of the United States"),
    ("US", 1.0, r"(?i)\b\d\.\d{3}\s?%?\s*TAX|\bTAX\s*\d\.\d{3}\s?%", "sales tax with three decimals"),
    ("IN", 1.2, r"(?i)\bGSTIN\b|\bCGST\b|\bSGST\b|\bINDIA\b|\bDELHI\b|\bMUMBAI\b|\bBANGALORE\b|₹", "Indian tax words"),
    ("MX", 1.2, r"(?i)\bRFC\b|\bMEXICO\b|\bM[ÉE]XICO\b|\bC\.?F\.?D\.?I\b|\bS\.?A\.? DE C\.?V\b", "Mexican tax words"),
    ("HK", 1.0, r"(?i)\bHONG KONG\b|HK\$", "Hong Kong named"),
    ("TW", 1.0, r"(?i)\bTAIWAN\b|NT\$|統一發票|統編", "Taiwanese invoice words"),
    ("CN", 0.8, r"人民币|(?i:\bRMB\b)|发票|\bwww\.[\w.]+\.cn\b", "Chinese invoice words"),
    ("ZA", 1.0, r"(?i)\bSOUTH AFRICA\b|\.co\.za\b|\bJOHANNESBURG\b", "South Africa named"),
    ("PH", 1.0, r"(?i)\bPHILIPPINES\b|\bMANILA\b|\bTIN:?\s?\d{3}-\d{3}-\d{3}", "Philippine tax number"),
)  # fmt: skip
_COMPILED = tuple((country, strength, re.compile(pattern), reason) for country, strength, pattern, reason in _EVIDENCE)

# Words of everyday receipts; a language is named when at least two different ones stand there.
_LANGUAGE_WORDS: dict[str, str] = {
    "en": "total change cash thank you receipt invoice tax amount please date item price card balance goods come again shopping customer",
    "de": "summe mwst bar rechnung datum uhrzeit betrag danke vielen dank steuer gegeben ruckgeld einkauf beleg kasse zahlen stk pfand euro",
    "fr": "total tva merci ticket montant especes rendu carte facture date heure prix vous votre visite payer dont caisse paiement rue",
    "es": "total iva gracias por su visita fecha hora efectivo cambio factura importe articulo precio cuenta mesa tarjeta atendio",
    "it": "totale iva grazie arrivederci contanti resto scontrino documento commerciale importo pagato data ora euro piazza via",
    "pt": "total iva obrigado troco dinheiro fatura data hora valor nif contribuinte documento nota fiscal consumidor qtde",
    "nl": "totaal btw bedankt datum pin bon tot ziens betalen aantal prijs artikel bedrag factuur klant wij kassa subtotaal",
    "pl": "suma ptu paragon fiskalny gotowka reszta sprzedaz nip karta dziekujemy razem opodatkowana kasjer platnosc rozliczenie",
    "ms": "jumlah tunai baki terima kasih sila datang lagi cukai tarikh masa resit pelanggan",
    "id": "jumlah tunai kembali terima kasih kasir tanggal harga",
    "vi": "tong tien mat khach tra lai hoa don ngay ban cam on quy",
    "tr": "toplam kdv fis tarih saat nakit kredi karti tesekkurler",
    "lv": "kopa pvn ceks apmaksai atlaides karte gab cena gala nodoklis paldies",
    "uk": "сума пдв каса чек дякуємо знижка фіскальний", "ru": "итог итого чек кассир спасибо наличными скидка сумма",
    "sv": "totalt moms kvitto tack valkommen kontant oppet", "cs": "celkem dph dekujeme hotovost uctenka",
}  # fmt: skip
_LANGUAGES = {code: frozenset(words.split()) for code, words in _LANGUAGE_WORDS.items()}
_WORD = re.compile(r"[^\W\d_]{2,}")

_LANGUAGE_COUNTRIES = {
    "de": "DE", "fr": "FR", "es": "ES", "it": "IT", "nl": "NL", "pl": "PL", "lv": "LV", "tr": "TR", "vi": "VN", "cs": "CZ",
    "uk": "UA", "ru": "RU", "ms": "MY",
}  # fmt: skip

MONTH_FIRST = frozenset({"US"})
YEAR_FIRST = frozenset({"JP", "CN", "KR", "TW", "HU", "LT"})


def countries(rows: Sequence[Row], language: str | None = None) -> dict[str, tuple[float, str]]:
    """Countries with the strength of their evidence and the strongest piece of it, the best first."""
    scores: dict[str, list[tuple[float, str]]] = {}
    for country, strength, pattern, reason in _COMPILED:
        hits = sum(1 for row in rows if pattern.search(row.text))
        if hits:
            scores.setdefault(country, []).append((strength * min(1.0 + 0.25 * (hits - 1), 2.0), reason))
    if language in _LANGUAGE_COUNTRIES:
        scores.setdefault(_LANGUAGE_COUNTRIES[language], []).append((0.4, f"words in '{language}'"))
    total = {c: (sum(s for s, _ in found), max(found)[1]) for c, found in scores.items()}
    return dict(sorted(total.items(), key=lambda item: (-item[1][0], item[0])))


def language(rows: Sequence[Row]) -> str | None:
    """The ISO 639-1 code of the language of the receipt's own words, or None where too few are known."""
    script = "".join(row.text for row in rows)
    if len(re.findall("[\u3040-\u30ff]", script)) >= 4:
        return "ja"
    if len(re.findall("[\uac00-\ud7af]", script)) >= 4:
        return "ko"
    if len(re.findall("[\u0e00-\u0e7f]", script)) >= 8:
        return "th"
    seen = {w for row in rows for w in _WORD.findall(fold(row.text))}
    scores = {code: len(words & seen) for code, words in _LANGUAGES.items()}
    best = max(scores, key=lambda code: (scores[code], code == "en"))
    if scores[best] >= 2:
        return best
    return "zh" if len(re.findall("[\u4e00-\u9fff]", script)) >= 8 else None
