"""verify, show, status, dead and export: what they say, where they say it, and how they end."""

from __future__ import annotations

import csv
import io
import json
import sqlite3
import sys
import tracemalloc
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from store_workspace import NASTY, field, make_workspace

from headrace.cli import tabular
from headrace.cli.app import main
from headrace.cli.exit_codes import ExitCode
from headrace.cli.tabular import Kind, csv_cell, parquet_value, safe_text
from headrace.documents.receipt import AmountField, Check, Merchant, TextField
from headrace.storage.sqlite import DATABASE, SqliteStore

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    return make_workspace(tmp_path / "ws")


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], workspace: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.chdir(workspace.parent)

    def headrace(*args: str) -> tuple[int, str, str]:
        code = main([*args, "--workspace", str(workspace)])
        told = capsys.readouterr()
        return code, told.out, told.err

    return headrace


def _tamper(workspace: Path, *statements: str) -> None:
    database = sqlite3.connect(workspace / DATABASE)
    for statement in statements:
        assert database.execute(statement).rowcount > 0, statement
    database.commit()
    database.close()


def _ids(workspace: Path) -> dict[str, str]:
    with SqliteStore.read(workspace) as store:
        return {entry.uri: entry.document_id for entry in store.entries(book="main")}


# verify


def test_verify_of_an_untouched_ledger_says_count_and_head(run: Run, workspace: Path) -> None:
    code, out, err = run("verify")
    with SqliteStore.read(workspace) as store:
        head = store.head("main")
    assert (code, err) == (ExitCode.OK, "")
    assert out == f"main: the chain holds, 5 entries, head {head.entry_hash}\n"
    code, out, _ = run("verify", "--json", "--book", "main")
    assert (code, json.loads(out)["holds"]) == (ExitCode.OK, True)


EDIT = "UPDATE entries SET content = replace(content, '12.50', '92.50') WHERE sequence = "


@pytest.mark.parametrize(
    ("statements", "voucher", "reason", "uri"),
    [
        ([EDIT + "2"], "main-000002", "content changed", "b.jpg"),
        ([EDIT + "5"], "main-000005", "content changed", "d.jpg"),
        (["UPDATE entries SET content = x'ff' WHERE sequence = 2"], "main-000002", "content changed", "b.jpg"),
        (["DELETE FROM entries WHERE sequence = 3"], "main-000004", "gap", "c.jpg"),
        (["DELETE FROM entries WHERE sequence = 1"], "main-000002", "gap", "b.jpg"),
        (["DELETE FROM entries WHERE sequence > 3"], "main-000004", "missing tail", None),
        (
            [f"UPDATE entries SET sequence = {to} WHERE sequence = {of}" for of, to in ((1, 99), (2, 1), (99, 2))],
            "main-000001",
            "link broken",
            "b.jpg",
        ),
        (["UPDATE entries SET position = 77 WHERE sequence = 2"], "main-000002", "misfiled", "b.jpg"),
        (["UPDATE entries SET content = '[]' WHERE sequence = 4"], "main-000004", "content changed", "c.jpg"),
        (["UPDATE entries SET prev_hash = entry_hash WHERE sequence = 2"], "main-000002", "link broken", "b.jpg"),
        (["UPDATE entries SET entry_hash = prev_hash WHERE sequence = 2"], "main-000002", "content changed", "b.jpg"),
        (["UPDATE books SET sequence = 4"], "main-000004", "head hash", None),
        (["UPDATE books SET sequence = 3, entry_hash = (SELECT entry_hash FROM entries WHERE sequence = 3)"],
         "main-000004", "behind the book's recorded head", "c.jpg"),
    ],
)  # fmt: skip
def test_verify_names_the_first_bad_entry(
    run: Run, workspace: Path, statements: list[str], voucher: str, reason: str, uri: str | None
) -> None:
    _tamper(workspace, *statements)
    code, out, err = run("verify")
    assert code == ExitCode.SOME_FAILED
    assert f"broken at {voucher}" in out
    assert voucher in err
    assert reason in err
    if uri:
        assert f"document {_ids_before(uri)}, {uri}" in err
    code, out, _ = run("verify", "--json")
    told = json.loads(out)
    assert (code, told["holds"]) == (ExitCode.SOME_FAILED, False)
    assert told["books"][0]["fault"]["voucher"] == voucher


def _ids_before(uri: str) -> str:
    from headrace.documents.document import document_id

    places = {"a.jpg": (1, 1), "b.jpg": (1, 2), "copy of a.jpg": (1, 3), "c.jpg": (1, 4), "d.jpg": (2, 1)}
    return document_id("main", *places[uri])


def test_verify_finds_counters_that_do_not_add_up(run: Run, workspace: Path) -> None:
    _tamper(workspace, "UPDATE batches SET failed = 0, succeeded = succeeded + 1 WHERE id = 1")
    code, _, err = run("verify")
    assert code == ExitCode.SOME_FAILED
    assert "batch 1: the counters differ from the entries" in err
    _tamper(workspace, "UPDATE batches SET in_flight = 7 WHERE id = 2")
    assert "batch 2: 2 accepted, but 1 + 7" in run("verify")[2]


def test_verify_of_a_book_that_is_not_there_is_a_usage_error(run: Run) -> None:
    assert run("verify", "--book", "none")[0] == ExitCode.USAGE


@pytest.mark.parametrize(
    "command", [["verify"], ["status"], ["show", "a"], ["dead", "list"], ["dead", "replay", "--all"], ["export"]]
)
def test_without_a_workspace_nothing_is_made(
    command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*command, "--workspace", str(tmp_path / "none")]) == ExitCode.USAGE
    assert "no workspace" in capsys.readouterr().err
    assert not (tmp_path / "none").exists()


# show


def test_show_of_a_receipt_has_its_fields_and_its_place(run: Run, workspace: Path) -> None:
    for reference in (_ids(workspace)["b.jpg"], "main-000002", "2", "b.jpg"):
        code, out, err = run("show", reference)
        assert (code, err) == (ExitCode.OK, "")
        for told in ("b.jpg", "main-000002", "accepted", "Café Grün", "12.50", "2026-03-03", "0.93", "03.03.26"):
            assert told in out
        assert "passed  sum: net + tax = total" in out


def test_show_of_a_failure_and_a_duplicate_says_why(run: Run, workspace: Path) -> None:
    out = run("show", "c.jpg")[1]
    assert "corrupt-document (decode, page 2): the file is cut off" in out
    out = run("show", "copy of a.jpg")[1]
    assert "main-000001, a.jpg" in out
    assert "all 1 bytes are the same" in out
    assert "queued" in run("show", "e.jpg")[1]


def test_show_as_json_is_the_exported_record_and_more(run: Run, workspace: Path) -> None:
    told = json.loads(run("show", "b.jpg", "--json")[1])
    line = json.loads(run("export")[1].splitlines()[1])
    assert {name: told[name] for name in line} == line
    assert told["store"]["telemetry"]["elapsed_s"] == 0.25
    assert json.loads(run("show", "e.jpg", "--json")[1])["status"] == "queued"


def test_show_of_something_unknown_is_a_usage_error(run: Run) -> None:
    code, out, err = run("show", "none.jpg")
    assert (code, out) == (ExitCode.USAGE, "")
    assert "none.jpg" in err
    assert "did you mean copy of a.jpg?" in run("show", "copy_of a.jpeg")[2]


def test_show_says_why_a_person_should_look_and_how_grave_each_failed_check_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = {"value": "205.10", "confidence": 0.4, "reason": "the blank parts two numbers"}
    doubted = AmountField(value="1205.10", confidence=0.9, status="ambiguous", source="ocr", alternatives=(other,))
    check = Check(id="tip", severity="warn", passed=False, message="total plus tip differ by 1")
    folder = make_workspace(tmp_path / "w", [{"tax_inclusive_amount": doubted, "checks": (check,)}])
    assert main(["show", "5", "--workspace", str(folder)]) == ExitCode.OK
    out = " ".join(capsys.readouterr().out.split())
    assert "Because the total can be read in more than one way: 1205.10 or 205.10" in out
    assert "failed (warn) tip: total plus tip differ by 1" in out
    assert "failed (warn) policy.required: the total can be read" in out
    assert "expected ok" not in out
    (row,) = [row for row in _csv(folder, tmp_path / "out.csv") if row["voucher"] == "main-000005"]
    assert row["review_reasons"] == "the total can be read in more than one way: 1205.10 or 205.10"


def test_show_prints_no_control_marks_of_a_document(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    evil = TextField(value="\x1b[2J[bold]gone", raw_text="\x07", confidence=0.5, status="ok", source="ocr")
    folder = make_workspace(tmp_path / "ws", [{"merchant": Merchant(name=evil)}])
    assert main(["show", "0.jpg", "--workspace", str(folder)]) == ExitCode.OK
    out = capsys.readouterr().out
    assert "\\x1b[2J[bold]gone" in out
    assert "\x1b" not in out
    assert "\x07" not in out


# status


def test_status_shows_progress_identity_heads_and_dead_letters(run: Run) -> None:
    code, out, _ = run("status")
    assert code == ExitCode.OK
    for told in ("4/4", "1/2+", "finished", "open", "yes", "scans", "Book main: 5 entries", "1 dead letter waits"):
        assert told in out
    told = json.loads(run("status", "--json")[1])
    assert [(b["done"], b["accepted"], b["in_flight"], b["holds"]) for b in told["batches"]] == [
        (4, 4, 0, True),
        (1, 2, 1, True),
    ]
    assert told["dead_letters"] == 1
    assert told["books"][0]["sequence"] == 5


def test_a_path_stands_whole_in_what_status_writes_into_a_pipe(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    source = f"folder:/home/you/{'long-name/' * 12}scans"
    with SqliteStore.open(tmp_path / "w") as store:
        store.open_batch("main", source, "2026-03-04", "{}")
    assert main(["status", "--workspace", str(tmp_path / "w")]) == ExitCode.OK
    assert source in capsys.readouterr().out


def test_status_is_readable_on_a_narrow_terminal(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    out = run("status")[1]
    assert "Batch 1, finished: 4/4 done (2 succeeded, 1 duplicate, 1 failed)" in " ".join(out.split())
    assert "Batch 2, open: 1/2+ done (1 succeeded, 1 in flight)" in out


def test_status_works_while_a_run_writes(run: Run, workspace: Path) -> None:
    with SqliteStore.open(workspace) as store:
        store.open_batch("main", "third", "2026-03-04", "{}")
        assert json.loads(run("status", "--json")[1])["batches"][2]["key"] == "third"
        assert run("verify")[0] == ExitCode.OK
        assert run("dead", "replay", "--all")[0] == ExitCode.USAGE  # another process writes


# dead


def test_dead_letters_are_listed_with_their_reason(run: Run, workspace: Path) -> None:
    code, out, _ = run("dead", "list")
    assert code == ExitCode.OK
    assert out.startswith(f"{_ids(workspace)['c.jpg']}  corrupt-document, page 2  c.jpg")
    assert "the file is cut off" in out
    (letter,) = [json.loads(line) for line in run("dead", "list", "--json")[1].splitlines()]
    assert (letter["uri"], letter["failure"]["code"]) == ("c.jpg", "corrupt-document")


@pytest.mark.parametrize("by_id", [True, False])
def test_a_replay_registers_a_batch_and_says_what_runs_it(run: Run, workspace: Path, by_id: bool) -> None:
    code, out, err = run("dead", "replay", _ids(workspace)["c.jpg"] if by_id else "--all")
    assert (code, out) == (ExitCode.OK, "batch 3: 1 document to run again\n")
    assert f"headrace run --replay --workspace {workspace}" in err
    with SqliteStore.read(workspace) as store:
        assert [d.uri for d in store.pending(3)] == ["c.jpg"]
    assert run("dead", "list")[1] == ""
    assert "run again in batch 3" in run("dead", "list", "--all")[1]
    assert json.loads(run("dead", "replay", "--all", "--json")[1]) == []


def test_a_replay_of_what_is_no_dead_letter_is_refused(run: Run, workspace: Path) -> None:
    code, _, err = run("dead", "replay", _ids(workspace)["a.jpg"])
    assert code == ExitCode.USAGE
    assert "no dead letter" in err
    assert run("dead", "replay")[0] == ExitCode.USAGE
    assert run("dead", "replay", "--all", "d1")[0] == ExitCode.USAGE


# export


def test_jsonl_has_every_entry_in_order(run: Run, tmp_path: Path) -> None:
    code, out, err = run("export")
    lines = [json.loads(line) for line in out.splitlines()]
    assert (code, err) == (ExitCode.OK, "5 entries written\n")
    assert [line["ledger"]["sequence"] for line in lines] == [1, 2, 3, 4, 5]
    assert [line["kind"] for line in lines] == ["receipt", "receipt", "duplicate", "failure", "receipt"]
    run("export", "-o", str(tmp_path / "out.jsonl"))
    assert (tmp_path / "out.jsonl").read_text() == out
    batch = [json.loads(line) for line in run("export", "--batch", "2")[1].splitlines()]
    assert [line["source"]["uri"] for line in batch] == ["d.jpg"]
    assert run("export", "--book", "none")[0] == ExitCode.USAGE
    assert run("export", "--batch", "9")[0] == ExitCode.USAGE


@pytest.fixture
def odd(tmp_path: Path) -> Path:
    """Two receipts more: a refund to a merchant whose name is a formula, and one with a total of 40 digits."""
    return make_workspace(
        tmp_path / "odd",
        [
            {
                "merchant": Merchant(name=field(TextField, NASTY)),
                "tax_inclusive_amount": field(AmountField, Decimal("-8.40")),
                "receipt_number": field(TextField, "-17"),
            },
            {"tax_inclusive_amount": field(AmountField, Decimal("1" * 40))},
        ],
    )


def _csv(workspace: Path, output: Path) -> list[dict[str, str]]:
    assert main(["export", "-o", str(output), "--workspace", str(workspace)]) == ExitCode.OK
    raw = output.read_bytes()
    assert raw.startswith(b"\xef\xbb\xbfvoucher,")
    return list(csv.DictReader(io.StringIO(raw.decode("utf-8-sig"), newline="")))


def test_csv_numbers_stay_numbers_and_formulas_become_text(odd: Path, tmp_path: Path) -> None:
    rows = _csv(odd, tmp_path / "out.csv")
    assert len(rows) == 7
    assert rows[1]["merchant"] == "Café Grün"
    assert rows[2]["duplicate_of"] == rows[0]["document_id"]
    assert rows[2]["duplicate_of_voucher"] == rows[0]["voucher"]
    assert (rows[3]["failure_code"], rows[3]["tax_inclusive_amount"]) == ("corrupt-document", "")
    refund = rows[4]
    assert refund["merchant"] == "'" + NASTY
    assert (refund["tax_inclusive_amount"], refund["receipt_number"]) == ("-8.40", "'-17")
    assert rows[5]["tax_inclusive_amount"] == "1" * 40


@pytest.mark.parametrize(
    "text",
    [
        "=1+1",
        "+1",
        "-1+1",
        "@SUM(A1)",
        "\t=1",
        "\r=1",
        "\n=1",
        " =1",
        "\u00a0=1",
        "＝1",
        "＠x",
        "\0=1",
        "\ufeff=1",
        "\tx",
    ],
)
def test_no_cell_of_text_begins_like_a_formula(text: str) -> None:
    assert safe_text(text) == "'" + text


@pytest.mark.parametrize("text", ["12 = 12", "a+b", "Müller & Söhne", "", "'quoted", "3-2", "(=)"])
def test_harmless_text_stays_as_it_is(text: str) -> None:
    assert safe_text(text) == text


@pytest.mark.parametrize("value", ["-1+cmd|' /C calc'!A0", "=1", "NaN", "-Infinity", "1e5+", "@"])
def test_an_amount_that_is_no_number_is_treated_as_text(value: str) -> None:
    assert csv_cell(Kind.AMOUNT, value) == safe_text(value)
    assert parquet_value(Kind.AMOUNT, value) is None


def test_parquet_has_exact_amounts_and_real_dates(odd: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parquet = pytest.importorskip("pyarrow.parquet", reason="the extra 'parquet' is not installed")
    monkeypatch.setattr(tabular, "ROW_GROUP_ROWS", 2)
    output = tmp_path / "out.parquet"
    assert main(["export", "-o", str(output), "--workspace", str(odd)]) == ExitCode.OK
    assert parquet.ParquetFile(output).num_row_groups == 4
    rows = parquet.read_table(output).to_pylist()
    assert [row["sequence"] for row in rows] == list(range(1, 8))
    assert str(rows[0]["issue_date"]) == "2026-03-03"
    assert rows[0]["tax_inclusive_amount"] == Decimal("12.50")
    assert rows[4]["tax_inclusive_amount"] == Decimal("-8.40")
    assert rows[4]["merchant"] == NASTY
    assert rows[5]["tax_inclusive_amount"] is None


def test_parquet_without_pyarrow_says_what_to_install(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    code, out, err = run("export", "--format", "parquet", "-o", str(tmp_path / "out"))
    assert (code, out) == (ExitCode.MISSING, "")
    assert "pip install 'headrace[parquet]'" in err
    assert not (tmp_path / "out").exists()


def test_a_file_that_exists_is_not_touched_unless_asked(run: Run, tmp_path: Path) -> None:
    output = tmp_path / "mine.csv"
    output.write_text("mine")
    code, _, err = run("export", "-o", str(output))
    assert code == ExitCode.OUTPUT
    assert "--overwrite" in err
    assert output.read_text() == "mine"
    assert run("export", "-o", str(output), "--overwrite")[0] == ExitCode.OK
    assert "voucher" in output.read_text()
    assert run("export", "-o", "/proc/none/out.csv")[0] == ExitCode.OUTPUT
    assert run("export", "-o", "/dev/null")[0] == ExitCode.OK


def test_an_export_that_breaks_off_leaves_nothing(run: Run, workspace: Path, tmp_path: Path) -> None:
    _tamper(workspace, "UPDATE entries SET content = 'nonsense' WHERE sequence = 4")
    before = sorted(tmp_path.iterdir())
    code, _, err = run("export", "-o", str(tmp_path / "out.csv"))
    assert code == ExitCode.SOME_FAILED
    assert "main-000004 is damaged" in err
    assert sorted(tmp_path.iterdir()) == before


def test_a_long_ledger_is_exported_in_little_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.cli.workspace.PAGE_ENTRIES", 16)
    folders = [make_workspace(tmp_path / str(count), [{}] * count) for count in (50, 900)]
    peaks: list[Any] = []
    for folder in folders:
        tracemalloc.start()
        assert main(["export", "-o", str(folder / "out.csv"), "--workspace", str(folder)]) == ExitCode.OK
        assert main(["export", "-o", str(folder / "out.jsonl"), "--workspace", str(folder)]) == ExitCode.OK
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.5 * peaks[0]


# what a line begins with


def test_a_line_begins_with_what_people_look_for_and_ends_with_the_ledger(run: Run) -> None:
    _, out, _ = run("export", "--batch", "1")
    keys = [list(json.loads(line)) for line in out.splitlines()]
    assert keys[0][:5] == ["kind", "document_id", "source", "merchant", "issue_date"]
    assert keys[0][5:9] == ["payable_amount", "tax_inclusive_amount", "currency", "verdict"]
    assert keys[3][:4] == ["kind", "document_id", "source", "verdict"], "a failure has no fields"
    assert {line[-1] for line in keys} == {"ledger"}


def test_dead_replay_says_the_one_command_that_runs_them_with_an_output_that_works(run: Run, workspace: Path) -> None:
    code, _, err = run("dead", "replay", "--all")
    assert code == 0
    assert f"headrace run --replay --workspace {workspace} -o replayed.jsonl" in err


def test_show_has_what_was_measured_of_a_failure(run: Run, workspace: Path) -> None:
    database = sqlite3.connect(workspace / DATABASE)
    told = json.dumps({"pages": 0, "stages_s": {}, "observed": ["attempt 2: it grew to 900 MB"]})
    database.execute("UPDATE documents SET telemetry = ? WHERE uri = 'c.jpg'", (told,))
    database.commit()
    database.close()
    assert "attempt 2: it grew to 900 MB" in run("show", "c.jpg")[1]


@pytest.mark.parametrize("command", ["dead", "config"])
def test_the_help_of_a_group_shows_whole_sentences(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    main([command, "--help"])
    told = " ".join(capsys.readouterr().out.split())
    assert "..." not in told.replace("[ARGS]...", "")
    assert told.endswith(".")


def test_a_workspace_without_a_book_leaves_standard_output_empty(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    SqliteStore.open(tmp_path / "empty").close()
    assert main(["verify", "--workspace", str(tmp_path / "empty")]) == 0
    told = capsys.readouterr()
    assert (told.out, "nothing to verify" in told.err) == ("", True)
