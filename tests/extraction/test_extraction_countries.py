# ruff: noqa: E501 - the tables read better unbroken
"""Whole receipts as they are printed in many countries: sums, taxes by rate, payments, numbers and items of each."""

from __future__ import annotations

from typing import Any

import pytest
from paper import read

RECEIPTS: dict[str, tuple[tuple[str, ...], dict[str, Any]]] = {
    "de": (
        ("Müller Markt GmbH", "Hauptstraße 12", "80331 München", "USt-IdNr. DE136695976", "Beleg-Nr. 4711",
         "13.04.2025 18:22", "EUR", "Bio Milch 3,5% | 1,49 B", "Batterien AA | 5,99 A", "Leergut | -0,75 B",
         "Äpfel", "1,250 kg x 2,40 EUR/kg | 3,00 B", "SUMME | EUR 9,73", "Bar | EUR 20,00", "Rückgeld | EUR -10,27",
         "Steuer % | Netto | Steuer | Brutto", "A 19,0% | 5,03 | 0,96 | 5,99", "B 7,0% | 3,50 | 0,24 | 3,74",
         "Gesamtbetrag | 8,53 | 1,20 | 9,73"),
        {"total": "9.73", "tax": "1.20", "currency": "EUR", "tendered": "20.00", "change": "10.27",
         "items": ["1.49", "5.99", "-0.75", "3.00"], "rates": ["19.0", "7.0"], "number": "4711", "language": "de"},
    ),
    "fr": (
        ("BOULANGERIE DU PONT", "8 rue des Tanneurs", "69002 Lyon", "SIRET 732 829 320 00074", "TVA FR40303265045",
         "Ticket N° 000123", "Le 13/04/2025 à 08:15", "2 x Baguette tradition | 2,60", "Croissant | 1,20", "Éclair café | 3,10",
         "Sous-total | 6,90", "Total TTC | 6,90 €", "Dont TVA 5,5% | 0,20", "dont TVA 10% | 0,28", "CB | 6,90 €", "Merci de votre visite"),
        {"total": "6.90", "tax": "0.48", "currency": "EUR", "items": ["2.60", "1.20", "3.10"], "rates": ["10", "5.5"],
         "paid": ["6.90"], "language": "fr"},
    ),
    "es": (
        ("SUPERMERCADOS LA PLAZA S.A.", "Calle Mayor 5, 28013 Madrid", "CIF: A58818501", "Factura simplificada: 2041-016-123456",
         "13/04/2025 19:40", "1 LECHE ENTERA | 0,92", "2 PAN INTEGRAL 1,10 | 2,20", "1 DETERGENTE | 4,50",
         "TOTAL (€) | 7,62", "EFECTIVO | 10,00", "CAMBIO | 2,38", "IVA | BASE IMPONIBLE | CUOTA",
         "4% | 3,00 | 0,12", "21% | 3,72 | 0,78", "TOTAL | 6,72 | 0,90", "Gracias por su visita"),
        {"total": "7.62", "tax": "0.90", "net": "6.72", "currency": "EUR", "tendered": "10.00", "change": "2.38",
         "items": ["0.92", "2.20", "4.50"], "rates": ["21", "4"], "language": "es"},
    ),
    "it": (
        ("BAR CENTRALE SRL", "Piazza Garibaldi 3", "43121 Parma", "P.IVA 00743110157", "DOCUMENTO COMMERCIALE",
         "di vendita o prestazione", "DESCRIZIONE | IVA | Prezzo(€)", "CAFFE | 10% | 1,30", "2 x 1,50", "BRIOCHE | 10% | 3,00",
         "GIORNALE | 4% | 1,70", "SUBTOTALE | 6,00", "SCONTO | -0,50", "TOTALE COMPLESSIVO | 5,50", "di cui IVA | 0,45",
         "Pagamento contante | 10,00", "Resto | 4,50", "13-04-2025 07:58", "DOCUMENTO N. 0812-0045"),
        {"total": "5.50", "tax": "0.45", "currency": "EUR", "tendered": "10.00", "change": "4.50", "discount": "-0.50",
         "items": ["1.30", "3.00", "1.70"], "language": "it"},
    ),
    "pt": (
        ("PASTELARIA LISBOA LDA", "Rua Augusta 22", "1100-053 Lisboa", "NIF: 501964843", "Fatura Simplificada FS 2025/1187",
         "Data: 2025-04-13 10:02", "Pastel de nata | 4 | 1,30 | 5,20", "Galão | 1 | 1,80 | 1,80", "Sumo natural | 1 | 3,00 | 3,00",
         "Total a pagar | 10,00 €", "Multibanco | 10,00 €", "Taxa | Base | IVA | Total", "13% | 6,19 | 0,81 | 7,00", "23% | 2,44 | 0,56 | 3,00",
         "Obrigado pela sua visita"),
        {"total": "10.00", "tax": "1.37", "currency": "EUR", "items": ["5.20", "1.80", "3.00"], "rates": ["23", "13"],
         "paid": ["10.00"], "language": "pt"},
    ),
    "nl": (
        ("KAASWINKEL DE BOER B.V.", "Dorpsstraat 7", "1017 AB Amsterdam", "BTW nr NL004495445B01", "Bonnr: 88213", "13-04-2025 12:31",
         "Oude kaas 0,452 kg x 18,90 | 8,54", "Statiegeld | 0,15", "Melk | 1,29", "Korting | -1,00", "Subtotaal | 8,98",
         "Totaal | € 8,98", "Pin | € 8,98", "BTW | over | bedrag", "9% | 8,24 | 0,74", "Bedankt en tot ziens"),
        {"total": "8.98", "tax": "0.74", "currency": "EUR", "items": ["8.54", "0.15", "1.29", "-1.00"], "rates": ["9"],
         "paid": ["8.98"], "language": "nl"},
    ),
    "pl": (
        ("DELIKATESY ZOŚKA SP. Z O.O.", "ul. Długa 4, 00-238 Warszawa", "NIP 521-301-72-28", "2025-04-13 nr wydr. 014523",
         "PARAGON FISKALNY", "CHLEB ŻYTNI | 1 x5,49 | 5,49C", "MLEKO 2% | 2 x3,29 | 6,58C", "ŻARÓWKA LED | 1 x12,90 | 12,90A",
         "OPUST | -2,00", "Sprzedaż opodatkowana A | 10,90", "PTU A 23 % | 2,04", "Sprzedaż opodatkowana C | 12,07", "PTU C 5 % | 0,57",
         "SUMA PTU | 2,61", "SUMA PLN | 22,97", "GOTÓWKA | 50,00", "RESZTA | 27,03"),
        {"total": "22.97", "tax": "2.61", "currency": "PLN", "tendered": "50.00", "change": "27.03",
         "items": ["5.49", "6.58", "12.90", "-2.00"], "rates": ["23", "5"], "language": "pl"},
    ),
    "en-GB": (
        ("THE CLACHAN PUB LTD", "34 Kingly Street, London W1B 5QH", "VAT No. GB 980 7806 84", "Receipt No: 55120", "13/04/2025 20:05",
         "2 Pale Ale | £10.40", "Fish & Chips | £14.50", "Subtotal | £24.90", "Service 12.5% | £3.11", "Total | £28.01",
         "Visa Debit | £28.01", "**** **** **** 4417", "VAT 20% | £4.15", "Thank you"),
        {"total": "28.01", "tax": "4.15", "currency": "GBP", "items": ["10.40", "14.50"], "paid": ["28.01"], "last4": "4417",
         "number": "55120", "language": "en"},
    ),
    "en-US": (
        ("HARBOR GRILL", "12 Main Street", "Boston, MA 02110", "(617) 555-0142", "Check #: 1043", "04/13/2025 7:48 PM",
         "1 Clam Chowder | 8.00", "2 Lobster Roll | 52.00", "Subtotal | 60.00", "MA Meals Tax 7% | 4.20", "Total | 64.20",
         "Tip | 12.80", "Grand Total | $77.00", "Mastercard XXXX2210 | $77.00", "Suggested gratuity", "18% = 10.80", "20% = 12.00"),
        {"total": "77.00", "gross": "64.20", "tax": "4.20", "tip": "12.80", "currency": "USD", "items": ["8.00", "52.00"],
         "last4": "2210", "paid": ["77.00"]},
    ),
    "ja": (
        ("株式会社みどりや", "東京都港区芝1-2-3", "登録番号 T1234567890123", "2025年4月13日 18:05", "おにぎり | ¥140", "緑茶 2個 x 単128 | ¥256",
         "小計 | ¥396", "消費税 8% | ¥31", "合計 | ¥427", "お預り | ¥500", "お釣り | ¥73"),
        {"total": "427", "tax": "31", "currency": "JPY", "tendered": "500", "change": "73", "items": ["140", "256"], "language": "ja"},
    ),
    "zh-TW": (
        ("全聯實業股份有限公司", "統一編號 16740494", "2025-04-13 18:05", "鮮乳 | 92", "吐司麵包 | 45", "小計 | 137", "合計 | NT$137", "現金 | 200", "找零 | 63"),
        {"total": "137", "currency": "TWD", "tendered": "200", "change": "63", "items": ["92", "45"]},
    ),
    "ko": (
        ("서울마트", "서울특별시 중구 세종대로 1", "2025-04-13 18:05", "우유 | 2,800", "식빵 | 3,200", "공급가액 | 5,455", "부가세 | 545", "합계 | 6,000",
         "현금 | 10,000", "거스름돈 | 4,000"),
        {"total": "6000", "tax": "545", "currency": "KRW", "tendered": "10000", "change": "4000", "items": ["2800", "3200"], "language": "ko"},
    ),
    "ru": (
        ("ООО РОМАШКА", "ИНН 7707083893", "КАССОВЫЙ ЧЕК", "13.04.2025 18:05", "ХЛЕБ РЖАНОЙ | 1 x 54,90 | 54,90", "МОЛОКО | 2 x 89,50 | 179,00",
         "ИТОГО | 233,90", "НДС 10% | 21,26", "НАЛИЧНЫМИ | 500,00", "СДАЧА | 266,10"),
        {"total": "233.90", "tax": "21.26", "currency": "RUB", "tendered": "500.00", "change": "266.10", "items": ["54.90", "179.00"]},
    ),
    "uk": (
        ("АПТЕКА ДОБРОГО ДНЯ", "ПН 123456789012", "Вітамін С | 85,90 А", "Бинт | 22,15 А", "СУМА | 108,05", "ПДВ А 7% | 7,07", "ГОТІВКА | 110,00", "РЕШТА | 1,95",
         "13.04.2025 18:05", "ФІСКАЛЬНИЙ ЧЕК"),
        {"total": "108.05", "tax": "7.07", "currency": "UAH", "tendered": "110.00", "change": "1.95", "items": ["85.90", "22.15"]},
    ),
    "el": (
        ("ΑΡΤΟΠΟΙΕΙΟ ΗΛΙΟΣ", "ΑΦΜ 094014201 ΔΟΥ ΑΘΗΝΩΝ", "13/04/2025 18:05", "ΨΩΜΙ | 1,80", "ΤΥΡΟΠΙΤΑ | 2,20", "ΣΥΝΟΛΟ | 4,00 €", "ΦΠΑ 13% | 0,46",
         "ΜΕΤΡΗΤΑ | 5,00", "ΡΕΣΤΑ | 1,00"),
        {"total": "4.00", "tax": "0.46", "currency": "EUR", "tendered": "5.00", "change": "1.00", "items": ["1.80", "2.20"]},
    ),
    "tr": (
        ("GÜNEŞ MARKET LTD. ŞTİ.", "VKN 1234567890", "FİŞ NO: 0042", "13.04.2025 18:05", "EKMEK %1 | *15,00", "DETERJAN %20 | *120,00", "TOPKDV | *20,15",
         "TOPLAM | *135,00", "NAKİT | *200,00", "PARA ÜSTÜ | *65,00"),
        {"total": "135.00", "tax": "20.15", "currency": "TRY", "tendered": "200.00", "change": "65.00", "items": ["15.00", "120.00"]},
    ),
    "cs": (
        ("POTRAVINY U LÍPY s.r.o.", "IČO 27082440 DIČ CZ27082440", "13.04.2025 18:05", "Rohlík 5 x 3,90 | 19,50", "Máslo | 54,90", "Celkem | 74,40 Kč",
         "DPH 12% | 7,97", "Hotovost | 100,00 Kč", "Vráceno | 25,60 Kč", "Děkujeme"),
        {"total": "74.40", "tax": "7.97", "currency": "CZK", "tendered": "100.00", "change": "25.60", "items": ["19.50", "54.90"]},
    ),
    "sv": (
        ("Macken Vid Bron AB", "Org.nr 556999-0114", "Asögatan 91, 116 46 Stockholm", "Kvitto 2211", "2025-04-13 18:05", "Kaffe | 32,00", "Bulle | 28,00",
         "Totalt | 60,00 SEK", "Moms 12% | 6,43", "Kontant | 100,00", "Växel | 40,00", "Tack"),
        {"total": "60.00", "tax": "6.43", "currency": "SEK", "tendered": "100.00", "change": "40.00", "items": ["32.00", "28.00"]},
    ),
    "da": (
        ("Bageren ApS", "CVR 13585628", "Nørregade 4, 1165 København", "13-04-2025 18:05", "Rugbrød | 38,00", "Wienerbrød | 24,00", "Total | 62,00 kr.", "Heraf moms 25% | 12,40",
         "Dankort | 62,00", "Tak for besøget"),
        {"total": "62.00", "tax": "12.40", "currency": "DKK", "items": ["38.00", "24.00"], "paid": ["62.00"]},
    ),
    "no": (
        ("Kiosken AS", "Org.nr NO 974 760 673 MVA", "13.04.2025 18:05", "Pølse | 45,00", "Brus | 35,00", "Å betale | 80,00", "MVA 15% | 10,43", "Kontant | 100,00", "Vekslepenger | 20,00"),
        {"total": "80.00", "tax": "10.43", "currency": "NOK", "tendered": "100.00", "change": "20.00", "items": ["45.00", "35.00"]},
    ),
    "fi": (
        ("Ravintola Koivu Oy", "Y-tunnus 1567889-6", "13.4.2025 18:05", "Lohikeitto | 13,90", "Kahvi | 2,80", "YHTEENSÄ | 16,70 EUR", "ALV 14% | 2,05", "Käteinen | 20,00", "Takaisin | 3,30"),
        {"total": "16.70", "tax": "2.05", "currency": "EUR", "tendered": "20.00", "change": "3.30", "items": ["13.90", "2.80"]},
    ),
    "hu": (
        ("Sarki Bolt Kft.", "Adószám 12892312-2-43", "NYUGTA", "2025.04.13 18:05", "KENYÉR | 890", "TEJ | 450", "ÖSSZESEN: | 1 340 Ft", "KÉSZPÉNZ | 2 000 Ft", "VISSZAJÁRÓ | 660 Ft"),
        {"total": "1340", "currency": "HUF", "tendered": "2000", "change": "660", "items": ["890", "450"]},
    ),
    "ro": (
        ("SC MAGAZIN BUN SRL", "COD FISCAL RO18547290", "BON FISCAL", "13.04.2025 18:05", "PAINE | 1 x 5,50 | 5,50 A", "LAPTE | 2 x 7,20 | 14,40 A", "TOTAL LEI | 19,90", "TVA A 9% | 1,64",
         "NUMERAR LEI | 20,00", "REST LEI | 0,10"),
        {"total": "19.90", "tax": "1.64", "currency": "RON", "tendered": "20.00", "change": "0.10", "items": ["5.50", "14.40"]},
    ),
    "pt-BR": (
        ("MERCADO SOL LTDA", "CNPJ 16.727.230/0001-97", "NFC-e 000123 Série 1", "13/04/2025 18:05:10", "001 ARROZ 5KG | 1 UN x 24,90 | 24,90", "002 FEIJAO | 2 UN x 8,50 | 17,00",
         "QTD TOTAL DE ITENS | 2", "VALOR TOTAL R$ | 41,90", "Desconto R$ | 1,90", "VALOR A PAGAR R$ | 40,00", "Dinheiro | 50,00", "Troco R$ | 10,00"),
        {"total": "40.00", "currency": "BRL", "tendered": "50.00", "change": "10.00", "items": ["24.90", "17.00"]},
    ),
    "de-CH": (
        ("Bäckerei Zürich AG", "Bahnhofstrasse 1, 8001 Zürich", "CHE-100.155.212 MWST", "13.04.2025 18:05", "Gipfeli | 2 | 1.60 | 3.20", "Kaffee | 1 | 4.83 | 4.83", "Zwischensumme | 8.03",
         "Rundung | 0.02", "Total CHF | 8.05", "Bar | 10.00", "Rückgeld | 1.95", "MWST 2.6% | 0.20"),
        {"total": "8.05", "tax": "0.20", "currency": "CHF", "tendered": "10.00", "change": "1.95", "items": ["3.20", "4.83"]},
    ),
    "kw": (
        ("AL NOOR GROCERY", "KUWAIT", "13/04/2025 18:05", "DATES 1KG | 2.250", "TEA | 1.125", "TOTAL KWD | 3.375", "CASH | 5.000", "CHANGE | 1.625"),
        {"total": "3.375", "currency": "KWD", "tendered": "5.000", "change": "1.625", "items": ["2.250", "1.125"]},
    ),
}  # fmt: skip


def found(rows: tuple[str, ...], wanted: dict[str, Any]) -> dict[str, Any]:
    """What was read, in the words of `wanted`."""
    fields = read(*rows)
    single = {
        "total": fields.payable_amount.value, "gross": fields.tax_inclusive_amount.value, "net": fields.tax_exclusive_amount.value,
        "tax": fields.tax_amount.value, "tip": fields.tip_amount.value, "discount": fields.discount_amount.value,
        "tendered": fields.tendered_amount.value, "change": fields.change_amount.value, "currency": fields.currency.value,
        "language": fields.language, "number": fields.receipt_number.value,
        "last4": next((p.card_last4 for p in fields.payments if p.card_last4), None),
    }  # fmt: skip
    lists = {
        "items": [str(i.amount) for i in fields.line_items], "rates": [str(t.rate) for t in fields.tax_breakdown],
        "paid": [str(p.amount) for p in fields.payments],
    }  # fmt: skip
    read_as: dict[str, Any] = {k: (None if v is None else str(v)) for k, v in single.items()} | lists
    return {k: read_as[k] for k in wanted}


@pytest.mark.parametrize("country", RECEIPTS)
def test_a_receipt_of_this_country_is_read_whole(country: str) -> None:
    rows, wanted = RECEIPTS[country]
    assert found(rows, wanted) == wanted
