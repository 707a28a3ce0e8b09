"""The file of confirmed merchants, from its lines to the reading of a document."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any

import fpdf
import pytest

from headrace.cli.app import main
from headrace.documents.document import Document
from headrace.ingest import confirmed
from headrace.ingest.confirmed import MerchantsFileError, confirmed_merchants
from headrace.ingest.reading import ReadDocuments


def lines(path: Path, *objects: Any) -> Path:
    path.write_text("\n".join(o if isinstance(o, str) else json.dumps(o) for o in objects) + "\n", encoding="utf-8")
    return path


def test_names_accepted_receipts_and_corrections_count_and_nothing_else(tmp_path: Path) -> None:
    def receipt(name: str, verdict: str) -> dict[str, Any]:
        return {
            "kind": "receipt",
            "verdict": verdict,
            "merchant": {"name": {"value": name}, "address": {"value": None}},
        }

    path = lines(
        tmp_path / "known.jsonl",
        {"name": "ZARA", "address": "Calle 3"},
        "",
        receipt("COUNTDOWN", "accepted"),
        receipt("COUNTDOWN", "accepted"),
        receipt("C0UNTD0WN", "needs_review"),
        {"kind": "correction", "changes": {"merchant": {"name": {"value": "OPALONA"}}}},
        {"kind": "correction", "changes": {"payable_amount": {"value": "3.00"}}},
        {"kind": "failure", "verdict": None},
    )
    assert confirmed_merchants(path) == ((("COUNTDOWN", None), 2), (("OPALONA", None), 1), (("ZARA", "Calle 3"), 1))


@pytest.mark.parametrize("text", ["ZARA", "[1]", '{"name": '])
def test_a_line_that_makes_no_sense_stops_the_start_and_is_named(tmp_path: Path, text: str) -> None:
    path = lines(tmp_path / "known.jsonl", {"name": "ZARA"}, text)
    with pytest.raises(MerchantsFileError, match=r"known\.jsonl: line 2"):
        confirmed_merchants(path)


def test_a_file_that_is_not_there_stops_the_start(tmp_path: Path) -> None:
    with pytest.raises(MerchantsFileError, match="No such file"):
        confirmed_merchants(tmp_path / "none.jsonl")


def test_too_many_merchants_are_refused_and_never_cut_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(confirmed, "MAX_MERCHANTS", 2)
    path = lines(tmp_path / "known.jsonl", *({"name": name} for name in ("A1", "B2", "A1", "C3")))
    with pytest.raises(MerchantsFileError, match="line 4: more than 2 merchants"):
        confirmed_merchants(path)


def test_a_run_with_a_file_that_makes_no_sense_ends_before_it_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    lines(tmp_path / "known.jsonl", "ZARA")
    (tmp_path / "a.pdf").write_bytes(b"%PDF")
    assert main(["run", "a.pdf", "--engine", "null", "--merchants", "known.jsonl", "-o", "out.jsonl"]) == 2
    assert "known.jsonl: line 1" in capsys.readouterr().err


def test_a_worker_reads_with_the_directory_of_its_run(tmp_path: Path) -> None:
    pdf = fpdf.FPDF(unit="pt", format=(300, 400))
    pdf.set_font("Helvetica", size=14)
    pdf.add_page()
    for row, text in enumerate(("VERDENA CONFECTIONERY SDN BHD", "Jalan Besar 3", "13/04/2025", "TOTAL RM 4.00")):
        pdf.text(20, 40 + 24 * row, text)
    (tmp_path / "a.pdf").write_bytes(bytes(pdf.output()))
    known = ((("VERBENA CONFECTIONERY SDN BHD", None), 2),)
    document = Document("d1", 1, 1, "a.pdf", bytes(tmp_path / "a.pdf"))
    read = ReadDocuments("rapidocr", {}, 2**20, dt.date(2026, 11, 30), known)()
    name = (read(document).receipt or {})["merchant"]["name"]
    assert (name["value"], name["rule_id"]) == ("VERBENA CONFECTIONERY SDN BHD", "directory")
