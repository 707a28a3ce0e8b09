from __future__ import annotations

import datetime as dt
import os
import time

import pytest
from paper import read, values

from headrace.extraction.date_forms import find_dates
from headrace.extraction.dates import find_time

SHOP = ("GREEN CORNER SHOP", "12 High Street", "TOTAL | 12.50")


def date_of(*rows: str, today: dt.date = dt.date(2026, 11, 30)) -> tuple[str | None, str]:
    field = read(*SHOP, *rows, today=today).issue_date
    return (field.value.isoformat() if field.value else None), field.status


ONE_READING = {
    "13/04/25": "2025-04-13",
    "04/13/25": "2025-04-13",
    "2025-04-03": "2025-04-03",
    "2023-12-04": "2023-12-04",
    "3 APR 25": "2025-04-03",
    "03.04.25 20:15": "2025-04-03",
    "03/04/2568 Sat ร้านค้า อาหารไทย": "2025-04-03",
    "令和7年4月3日": "2025-04-03",
    "R7.4.3": "2025-04-03",
    "2026年06月13日": "2026-06-13",
    "14/03/20185:57:07PM": "2018-03-14",
    "#19536013/06/2018 6:31": "2018-06-13",
    "19 april 2014": "2014-04-19",
    "26 Février 2016": "2016-02-26",
    "5. März 2024": "2024-03-05",
    "15 de octubre de 2019": "2019-10-15",
    "3 maggio 2021": "2021-05-03",
    "7 września 2022": "2022-09-07",
    "Mar 9, 2023": "2023-03-09",
    "31 Ogos 2017": "2017-08-31",
    "14/dun/2017 08:34": "2017-06-14",
    "15/03/1815:41": "2018-03-15",
    "15/03/2018:41": "2020-03-15",
    "15/03/2O18": "2018-03-15",
    "l5/O3/2018": "2018-03-15",
}


@pytest.mark.parametrize(("printed", "day"), ONE_READING.items())
def test_a_date_with_one_reading_is_read_so(printed: str, day: str) -> None:
    assert date_of(f"Date: {printed}") == (day, "ok")


def test_without_evidence_the_order_stays_open_with_both_readings() -> None:
    fields = read(*SHOP, "Date: 03/04/25")
    assert fields.issue_date.status == "ambiguous"
    assert {"2025-04-03", "2025-03-04"} <= {fields.issue_date.value.isoformat()} | values(fields, "issue_date")  # type: ignore[union-attr]
    assert fields.issue_date.confidence < 0.5


@pytest.mark.parametrize(
    ("evidence", "day"),
    [
        ("CYMA 415,40", "2025-04-03"),
        ("BALANCE 12.50 EUR", "2025-04-03"),
        ("BALANCE £12.50", "2025-04-03"),
        ("KACCNP: 3", "2025-04-03"),
        ("MwSt 19% 2,00", "2025-04-03"),
        ("WESTPORT, CT 06880", "2025-03-04"),
        ("Printed 28/03/2025", "2025-04-03"),
        ("KUALA LUMPUR SDN BHD", "2025-04-03"),
        ("Ref 20250403000123", "2025-04-03"),
    ],
)
def test_country_language_and_other_numbers_settle_the_order(evidence: str, day: str) -> None:
    assert date_of(evidence, "Date: 03/04/25") == (day, "ok")


def test_the_weekday_beside_a_date_settles_its_order() -> None:
    assert date_of("Date: 03/04/25 Thursday") == ("2025-04-03", "ok")


def test_year_first_with_two_digits_is_read_only_with_evidence() -> None:
    assert date_of("25/03/04")[1] == "ambiguous"


def test_a_day_that_the_calendar_lacks_never_becomes_another_day_silently() -> None:
    day, status = date_of("Date: 29/02/25", today=dt.date(2030, 1, 1))
    assert day is None or status == "ambiguous"


def test_card_expiry_and_warranty_are_not_the_date_of_issue() -> None:
    fields = read(*SHOP, "VISA exp 04/25", "Warranty until 01/02/2028", "Date: 13/04/2025 10:11")
    assert str(fields.issue_date.value) == "2025-04-13"
    assert read(*SHOP, "VISA exp 04/25").issue_date.value is None


def test_a_date_after_today_is_kept_as_an_alternative_and_fails_a_check() -> None:
    fields = read(*SHOP, "Date: 13/04/2028")
    assert fields.issue_date.value is None
    assert "2028-04-13" in values(fields, "issue_date")
    assert any(c.id == "date-not-future" and not c.passed for c in fields.checks)


def test_a_date_of_long_ago_is_never_chosen_silently() -> None:
    assert read(*SHOP, "since 13/04/1961").issue_date.value is None


def test_the_time_zone_of_the_machine_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = set()
    for zone in ("UTC", "Etc/GMT+8", "Etc/GMT-13"):
        monkeypatch.setitem(os.environ, "TZ", zone)
        time.tzset()
        seen.add(date_of("Date: 2025-04-03 23:59"))
    monkeypatch.undo()
    time.tzset()
    assert seen == {("2025-04-03", "ok")}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("5:57:07PM", dt.time(17, 57, 7)),
        ("20:15", dt.time(20, 15)),
        ("12:05 AM", dt.time(0, 5)),
        ("13:14:15 PM", dt.time(13, 14, 15)),
        ("14h30", dt.time(14, 30)),
        ("12.50", None),
        ("03.04.25", None),
    ],
)
def test_times_are_read_on_the_24_hour_clock(text: str, expected: dt.time | None) -> None:
    found = find_time(text)
    assert (found[0] if found else None) == expected


def test_the_time_beside_the_date_is_the_time_of_issue() -> None:
    fields = read("Opening hours 08:00 - 22:00", *SHOP, "14/03/20185:57:07PM")
    assert fields.issue_time.value == dt.time(17, 57, 7)


@pytest.mark.parametrize("text", ["12.50 13.50", "19- 10/03", "No: 2018040110100050063", "03-62587191", "1.2.3"])
def test_numbers_that_are_no_dates_are_left_alone(text: str) -> None:
    assert list(find_dates(text)) == []


GST = ("KEDAI SDN BHD", "Jalan Subang 3, 40150 Shah Alam", "GST ID: 000473792512", "TOTAL | RM 12.50")


def test_a_year_before_the_tax_on_the_receipt_began_is_a_misread_digit_and_says_so() -> None:
    field = read(*GST, "15-03-13 15:41").issue_date
    assert field.value == dt.date(2018, 3, 15)
    assert field.status == "ambiguous"
    assert field.confidence < 0.5
    assert str(field.alternatives[0].value) == "2013-03-15"
    assert "as printed" in field.alternatives[0].reason


def test_a_year_before_the_tax_began_that_no_single_digit_explains_is_left_as_printed_but_in_doubt() -> None:
    for printed in ("2002", "2014"):
        field = read(*GST, f"15-03-{printed} 15:41").issue_date
        assert (field.value, field.status) == (dt.date(int(printed), 3, 15), "ambiguous")


def test_old_years_without_such_a_tax_are_believed() -> None:
    assert date_of("Date: 15-03-2013 15:41") == ("2013-03-15", "ok")


def test_eight_digits_alone_are_a_date_only_where_there_is_no_other() -> None:
    assert date_of("27032018 | No. CS-20242") == ("2018-03-27", "ambiguous")
    assert date_of("27032018 | No. CS-20242", "Date: 28/03/2018")[0] == "2018-03-28"
    assert date_of("No. 39032018 | CS-20242") == (None, "missing")


def test_a_date_with_an_illegible_digit_is_missing_and_not_invented() -> None:
    assert date_of("Date: 03/0:/2018") == (None, "missing")
    assert date_of("DATE:11/00/2017") == (None, "missing")
