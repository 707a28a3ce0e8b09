# ruff: noqa: E501 - tables of heads read better one to a line
"""The head of a receipt: names and addresses on worn paper, with stamps, brands and neighbours that are neither."""

from __future__ import annotations

import pytest
from paper import TODAY, page, read

from headrace.documents.text import Box, Line, PageText
from headrace.extraction import extract
from headrace.extraction.spelling import put_right

TAIL = ("GST ID: 000785416704", "TAX INVOICE", "BREAD | RM 4.00", "TOTAL | RM 4.00")


def address_of(*head: str) -> str | None:
    return read(*head, *TAIL).merchant.address.value


@pytest.mark.parametrize(
    ("printed", "meant"),
    [
        ("Jaian Kapar", "Jalan Kapar"),
        ("SETIA ÁLAM", "SETIA ALAM"),
        ("40150 SHAH ALAN", "40150 SHAH ALAM"),
        ("KAWASAN PERTNDUSTRIAN", "KAWASAN PERINDUSTRIAN"),
        ("SE_ANGOR", "SELANGOR"),
        ("0ATU 4", "BATU 4"),
        ("NO 29O, 7/1l8B", "NO 290, 7/118B"),
        ("AEON Ma11", "AEON Mall"),
        ("RESTÄURANT", "RESTAURANT"),
        ("Hardwae", "Hardware"),
        ("LUT 1504, BATU 8", "LOT 1504, BATU 8"),
        ("Eot 3, Jalan", "Lot 3, Jalan"),
        ("CONFECTEONERY", "CONFECTIONERY"),
    ],
)
def test_a_misread_letter_of_a_known_word_is_put_right(printed: str, meant: str) -> None:
    assert put_right(printed, local=True) == meant


@pytest.mark.parametrize(
    "text",
    [
        "SINAR JAYA", "POWER POINT", "TAMAN SEGAR", "CAFÉ MÜLLER", "Jalan Kelang", "BLACK CURRY", "PUTRI TUDUNG", "U13/X", "SS21/1A",
        "13 & BEST", "Kerinchi", "MAIDIN", "SUPPLIERS", "PARINDUSTRIAN", "Lor 5, Taman", "HOT 3",
    ],
)  # fmt: skip
def test_words_that_are_nobody_s_misprint_stay_as_they_are(text: str) -> None:
    assert put_right(text, local=True).replace("MULLER", "MÜLLER") == text


def test_legal_forms_whose_letters_look_like_digits_are_put_right() -> None:
    assert put_right("Stokrotka Sp. z o.0.", local=False) == "Stokrotka Sp. z o.o."
    assert put_right("99 SPEED MART S/8", local=True) == "99 SPEED MART S/B"
    assert put_right("ROUTE S/8", local=False) == "ROUTE S/8"


def test_the_letters_as_read_are_kept_beside_a_name_that_was_put_right() -> None:
    fields = read("AIK HUAT HARDWAKE SDN BHD", "Lot 3, Jaian Pelabur 23/1,", "40300 Shah Alam, Selangor.", *TAIL)
    name, address = fields.merchant.name, fields.merchant.address
    assert name.value == "AIK HUAT HARDWARE SDN BHD"
    assert name.raw_text == "AIK HUAT HARDWAKE SDN BHD"
    assert "AIK HUAT HARDWAKE SDN BHD" in {a.value for a in name.alternatives}
    assert address.value == "Lot 3, Jalan Pelabur 23/1, 40300 Shah Alam, Selangor."
    assert "Jaian" in (address.raw_text or "")


def test_foreign_words_are_not_corrected_into_malay() -> None:
    fields = read(
        "JARDINERÍA SAÑTA S.L.", "Calle Jaian 3", "28001 Madrid", "Factura simplificada", "IVA 21%", "TOTAL | 4,00 €"
    )
    assert fields.merchant.name.value == "JARDINERÍA SAÑTA S.L."
    assert "Jaian" in (fields.merchant.address.value or "")


@pytest.mark.parametrize(
    ("head", "address"),
    [
        (
            ("DION REALTIES SDN BHD", "Menara Dion #02-03, Level 2,", "27, Jalan Sultan Ismail,", "50250 Kuala Lumpur."),
            "Menara Dion #02-03, Level 2, 27, Jalan Sultan Ismail, 50250 Kuala Lumpur.",
        ),
        (
            ("TOAST F&B SDN BHD", "LOT 2110&2111 JALAN PERMAS UTARA", "BANDAR BARU PERMAS", "81750 JOHOR BAHRU JOHOR"),
            "LOT 2110&2111 JALAN PERMAS UTARA, BANDAR BARU PERMAS, 81750 JOHOR BAHRU JOHOR",
        ),
        (("STOOGES BISTRO", "109, SS21/1A,", "DAMANSARA UTAMA"), "109, SS21/1A, DAMANSARA UTAMA"),
        (
            ("GOLDEN SCOOP SDN BHD", "A-16-1, Tower A, Northpoint Office,", "No1 Medan Syed Putra Utara Kuala", "Lumpur", "Malaysia"),
            "A-16-1, Tower A, Northpoint Office, No1 Medan Syed Putra Utara Kuala, Lumpur, Malaysia",
        ),
        (("KEDAI RUNCIT ZBH", "NO. 17, JALAN PERMAS 1/7", "81750.MASAI"), "NO. 17, JALAN PERMAS 1/7, 81750.MASAI"),
        (("BERRY'S CAKE HOUSE", "No.1,", "Jln Puteri 1/6,", "47100 Puchong, Selangor"), "No.1, Jln Puteri 1/6, 47100 Puchong, Selangor"),
        (
            ("MOONLIGHT CAKE SDN BHD", "No.1, Jalan Permas 10/5", "81750 Johor Bahru, Johor. Te1 No.: 07-387 3322"),
            "No.1, Jalan Permas 10/5, 81750 Johor Bahru, Johor.",
        ),
        (("ECO SHOP SDN BHD", "HQ ADD: LOT 11995, BATU 2, JALAN KAPAR", "41400 KLANG"), "LOT 11995, BATU 2, JALAN KAPAR, 41400 KLANG"),
    ],
)  # fmt: skip
def test_an_address_is_read_from_its_first_row_to_its_last(head: tuple[str, ...], address: str) -> None:
    assert address_of(*head) == address


@pytest.mark.parametrize(
    ("head", "stray"),
    [
        (("POPULAR BOOK SDN BHD", "No 8, Jalan 7/118B", "56000 Kuala Lumpur, Malaysia", "101 MALL"), "101"),
        (("TONY SDN BHD", "(TONY SHOP (95874))", "UNIT L1-044B, VIVACITY MALL,", "93350 KUCHING, SARAWAK."), "95874"),
        (("ESJAY SDN BHD", "LOT 10, Jalan Permas 10/10", "81750 Masai, Johor", "PREPAY CHIT NUMBER: 12091"), "12091"),
        (("BEST DENKI SDN BHD", "No.5, Jalan SS16/1", "47500 Subang Jaya", "Staff: JORDAN | Trans: 20980"), "20980"),
    ],
)
def test_what_stands_beside_an_address_is_no_part_of_it(head: tuple[str, ...], stray: str) -> None:
    assert stray not in (address_of(*head) or stray)


def test_goods_are_no_address() -> None:
    fields = read("WATSON SDN BHD", "22241 1 WS CUT SCISSORS | 18.00", "64542 OVS TEMPO TWEEZER | 17.90", *TAIL[2:])
    assert fields.merchant.address.value is None


def test_an_address_above_the_operator_of_the_shop_is_found() -> None:
    fields = read(
        "BHPetrol Permas", "LOT PTD 101051", "Jalan Permas 10/10", "81750 Masai, Johor", "Esjay Fuel Sdn Bhd",
        "CO. REG. NO: 001011128-T", *TAIL,
    )  # fmt: skip
    assert fields.merchant.address.value == "LOT PTD 101051, Jalan Permas 10/10, 81750 Masai, Johor"


def test_a_stamp_across_the_name_or_the_address_is_left_out() -> None:
    plain = page("YONG CEN ENTERPRISE", "9, JALAN SUBANG JASA 3,", "40150 SHAH ALAM, SELANGOR.", *TAIL)
    rows = []
    for index, line in enumerate(plain.lines):
        boxes = line.boxes
        if index < 2:
            top, left = line.polygon[0][1] - 0.01, line.polygon[1][0] + 0.005
            corners = ((left, top), (left + 0.2, top), (left + 0.2, top + 0.04), (left, top + 0.04))
            boxes = (*boxes, Box("POSTED", corners, 0.9))
        rows.append(Line(boxes))
    fields = extract([PageText(1, 1000, 1000, tuple(rows))], today=TODAY)
    assert fields.merchant.name.value == "YONG CEN ENTERPRISE"
    assert fields.merchant.address.value == "9, JALAN SUBANG JASA 3, 40150 SHAH ALAM, SELANGOR."


@pytest.mark.parametrize(
    ("head", "name"),
    [
        (("Route 9 Fuel Stop", "214 Fulton Street", "Brooklyn, NY 11215"), "Route 9 Fuel Stop"),
        (("Cash Sale", "KT WONG TRADING (001904043-H)", "22, Jalan Hijau 5,"), "KT WONG TRADING"),
        (("MRT", "operated by", "rapidKL", "TAX INVOICE", "RAPID RAIL SUN BHD", "No.1 JALAN PJU 1A/46,", "PETALING JAYA"), "RAPID RAIL SDN BHD"),
        (("Cele | R", "1 | MBB | 264100", "KEDAI PAPAN YEW CHUAN", "(0005583085-K)", "LOT 276 JALAN BANTING"), "KEDAI PAPAN YEW CHUAN"),
    ],
)  # fmt: skip
def test_a_register_number_an_operator_and_scribbles_are_told_apart(head: tuple[str, ...], name: str) -> None:
    assert read(*head, *TAIL).merchant.name.value == name


def test_goods_are_no_name_where_the_head_was_cut_off() -> None:
    fields = read("Goods Sold Are Not Returnable", "MIGHTY MARK DISHWASH 11L", "2 x 11.50 | 23.00", "TOTAL | 23.00")
    assert fields.merchant.name.value is None


def test_one_word_among_rows_that_nobody_can_read_is_no_name() -> None:
    words = ("batuakaill", "Romnd", "dalo", "Pger", "ICE COFFEE | 82,000", "TOTAL | 82,000")
    worn = [
        Line(tuple(Box(b.text, b.polygon, 0.9 if b.text in ("Pger",) or "," in b.text else 0.6) for b in line.boxes))
        for line in page(*words).lines
    ]
    assert extract([PageText(1, 1000, 1000, tuple(worn))], today=TODAY).merchant.name.value is None
