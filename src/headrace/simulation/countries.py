"""Countries: how each one prints money, days, tax and the words around them. All houses and streets are invented."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal

from headrace.documents.money import minor_units


@dataclass(frozen=True, slots=True)
class Country:
    """What a till in this country knows.

    Attributes:
        code: ISO 3166. currency: ISO 4217. language: key of the goods and words.
        money: how an amount with its currency is printed (`{}` is the number).
        decimal, thousands: the marks.
        date: strftime format of a day.
        standard_rate, reduced_rate: tax in percent.
        tax: what the tax is called.
        tax_included: prices include tax; else it is added to them.
        cash_step: cash totals are rounded to it; 0 where they are not.
        tips: whether a restaurant slip has a tip.
        price_factor: what a price of 1 in the list of goods becomes here.
        city, phone, tax_id, street: printed under the name.
        houses: name of the house for each layout.
    """

    code: str
    currency: str
    language: str
    money: str
    decimal: str
    thousands: str
    date: str
    standard_rate: Decimal
    reduced_rate: Decimal
    tax: str
    tax_included: bool
    cash_step: Decimal
    tips: bool
    price_factor: Decimal
    city: str
    phone: str
    tax_id: str
    houses: Mapping[str, str]
    street: str

    def number(self, amount: Decimal, digits: int | None = None) -> str:
        """The amount in this country's digits and marks, without a currency."""
        digits = minor_units(self.currency) if digits is None else digits
        plain = f"{amount:,.{digits}f}"
        return plain.replace(",", "\0").replace(".", self.decimal).replace("\0", self.thousands)

    def price(self, amount: Decimal) -> str:
        """The amount with its currency."""
        return self.money.format(self.number(amount))

    def day(self, date: dt.date) -> str:
        """The day as this country prints it."""
        return date.strftime(self.date)


def _houses(slip: str, restaurant: str, supermarket: str, hotel: str, taxi: str, fuel: str) -> dict[str, str]:
    return {
        "slip": slip,
        "restaurant": restaurant,
        "supermarket": supermarket,
        "hotel": hotel,
        "taxi": taxi,
        "fuel": fuel,
    }


_NO_STEP, _STEP = Decimal(0), Decimal("0.05")

COUNTRIES: tuple[Country, ...] = (
    Country(
        "MY", "MYR", "en", "RM {}", ".", ",", "%d/%m/%Y", Decimal(6), Decimal(6), "SST", True, _STEP, False,
        Decimal("3.2"), "47300 Petaling Jaya, Selangor", "Tel: 03-7805 1422", "SST ID: W10-1808-32000417",
        _houses("Kedai Buku Seri Melati", "Restoran Nasi Bukit Hijau", "Pasaraya Sinar Desa Sdn Bhd",
                "Hotel Tanjung Kenari", "Teksi Kota Raya", "Stesen Minyak Jalan Lama"),
        "No. 18, Jalan Kenanga 2",
    ),
    Country(
        "US", "USD", "us", "${}", ".", ",", "%m/%d/%Y", Decimal("8.875"), Decimal("8.875"), "Sales Tax", False,
        _NO_STEP, True, Decimal("1.1"), "Brooklyn, NY 11215", "(718) 555-0142", "Store 0417",
        _houses("Maple & Finch Coffee", "The Copper Lantern", "Greenfield Market", "Harbor Street Inn",
                "Yellow Checker Cab 7K42", "Route 9 Fuel Stop"),
        "214 Fulton Street",
    ),
    Country(
        "DE", "EUR", "de", "{} €", ",", ".", "%d.%m.%Y", Decimal(19), Decimal(7), "MwSt", True, _NO_STEP, True,
        Decimal("0.95"), "10437 Berlin", "Tel. 030 555 01 73", "USt-IdNr. DE299999983",
        _houses("Bäckerei Morgenrot", "Gasthaus Zur Alten Mühle", "Lindner Frischemarkt", "Hotel Kastanienhof",
                "Taxi Wiesner Berlin", "Tankhof Nordring"),
        "Kastanienallee 12",
    ),
    Country(
        "FR", "EUR", "fr", "{} €", ",", " ", "%d/%m/%Y", Decimal(20), Decimal("5.5"), "TVA", True, _NO_STEP, True,
        Decimal("1.05"), "69002 Lyon", "Tél. 04 78 55 01 29", "TVA FR 40 303265045",
        _houses("Boulangerie du Vieux Pont", "Bistro Chez Margot", "Marché des Halles", "Hôtel de la Saône",
                "Taxis Bellecour", "Station des Brotteaux"),
        "8 rue des Tanneurs",
    ),
    Country(
        "ES", "EUR", "es", "{} €", ",", ".", "%d-%m-%Y", Decimal(21), Decimal(10), "IVA", True, _NO_STEP, False,
        Decimal("0.85"), "46001 Valencia", "Tel. 963 550 118", "NIF B98765432",
        _houses("Papelería La Estrella", "Mesón El Olivar", "Supermercado Costa Clara", "Hotel Plaza Mayor",
                "Radio Taxi Turia", "Estación de Servicio Levante"),
        "Calle de la Paz 31",
    ),
    Country(
        "GB", "GBP", "en", "£{}", ".", ",", "%d/%m/%Y", Decimal(20), Decimal(0), "VAT", True, _NO_STEP, True,
        Decimal("0.85"), "Bristol BS1 4ND", "0117 496 0182", "VAT No. GB 999 9999 73",
        _houses("Quayside Books", "The Fox & Barrel", "Hartley Food Hall", "The Old Customs House Hotel",
                "Avon City Cabs", "Clifton Road Garage"),
        "27 Welsh Back",
    ),
    Country(
        "JP", "JPY", "jp", "¥{}", ".", ",", "%Y/%m/%d", Decimal(10), Decimal(8), "Tax", True, _NO_STEP, False,
        Decimal(150), "Minato-ku, Tokyo 105-0004", "TEL 03-5550-0139", "T1234567890123",
        _houses("Hoshi Bunguten", "Izakaya Tsubaki", "Midori Mart", "Shimbashi Garden Hotel",
                "Sakura Kotsu Taxi", "Minato Sekiyu"),
        "Shimbashi 2-14-6",
    ),
    Country(
        "CH", "CHF", "de", "CHF {}", ".", "'", "%d.%m.%Y", Decimal("8.1"), Decimal("2.6"), "MWST", True, _STEP, True,
        Decimal("1.4"), "3011 Bern", "Tel. 031 555 01 64", "CHE-123.456.788 MWST",
        _houses("Papeterie Aarebogen", "Restaurant Zähringerhof", "Dorfladen Gurten", "Hotel Bärengraben",
                "Taxi Bundesplatz", "Tankstelle Wankdorf"),
        "Kramgasse 44",
    ),
    Country(
        "PL", "PLN", "pl", "{} PLN", ",", " ", "%Y-%m-%d", Decimal(23), Decimal(8), "PTU", True, _NO_STEP, True,
        Decimal("3.9"), "30-063 Kraków", "tel. 12 555 01 37", "NIP 123-456-32-18",
        _houses("Księgarnia Pod Zegarem", "Gospoda Stary Młyn", "Delikatesy Zielony Rynek", "Hotel Wawelski",
                "Taxi Krakus", "Stacja Paliw Wisła"),
        "ul. Krótka 5",
    ),
    Country(
        "SE", "SEK", "sv", "{} SEK", ",", " ", "%Y-%m-%d", Decimal(25), Decimal(12), "Moms", True, _NO_STEP, True,
        Decimal("10.5"), "116 46 Stockholm", "Tel 08-555 014 20", "Org.nr 556999-0114",
        _houses("Bokhandeln Gläntan", "Krogen Gyllene Räven", "Matboden Söder", "Hotell Skeppsbron",
                "Taxi Mälaren", "Macken Vid Bron"),
        "Åsögatan 91",
    ),
)  # fmt: skip
