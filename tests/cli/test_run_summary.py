"""The summary: does it add up, what is said of failures, and the exit code that follows."""

from __future__ import annotations

import io
import signal
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from headrace.cli.exit_codes import ExitCode
from headrace.cli.formats import columns
from headrace.cli.panel import plain
from headrace.cli.summary import (
    exit_code,
    failure_lines,
    identity,
    next_command,
    render,
    summary_lines,
)
from headrace.documents import errors
from headrace.documents.advice import ADVICE
from headrace.ingest.snapshot import FailedDocument, RunSummary

MIB = 2**20
DONE = RunSummary(
    batch_id=3, book="main", accepted=60, succeeded=55, partial=0, duplicates=1, failed=4, in_flight=0, order_ok=True,
    first_voucher=1, last_voucher=60, head_hash="3f9a1b2c3d4e5f66", elapsed_s=32.1, per_second=1.87, pages=66,
    peak_rss_bytes=812 * MIB, rss_ceiling_bytes=2500 * MIB, output="out/receipts.jsonl", workspace=".headrace",
    verdicts={"accepted": 40, "needs_review": 15}, slowest=(("a.jpg", 3.2), ("b.jpg", 2.0)),
    failures=(
        FailedDocument("scans/zero.jpg", "empty-file", "no bytes"), FailedDocument("x.pdf", "encrypted-document", ""),
    ),
    more_failures=2,
)  # fmt: skip
CLEAN = replace(DONE, succeeded=59, failed=0, failures=(), more_failures=0)


def text(summary: RunSummary, width: int = 76) -> str:
    return "\n".join(plain(line) for line in summary_lines(summary, width))


def rendered(summary: RunSummary, *, terminal: bool, width: int = 80) -> str:
    stream = io.StringIO()
    console = Console(
        file=stream, width=width, force_terminal=terminal, color_system=None, emoji=False, highlight=False
    )
    render(console, summary)
    return stream.getvalue()


IDENTITIES: list[tuple[dict[str, int], str]] = [
    ({}, "60 accepted = 55 receipts + 1 duplicate + 4 failed + 0 in flight"),
    ({"succeeded": 1, "accepted": 6}, "6 accepted = 1 receipt + 1 duplicate + 4 failed + 0 in flight"),
    (
        {"partial": 1, "succeeded": 54},
        "60 accepted = 54 receipts + 1 partial receipt + 1 duplicate + 4 failed + 0 in flight",
    ),
    (
        {"accepted": 40_060, "in_flight": 40_000},
        "40,060 accepted = 55 receipts + 1 duplicate + 4 failed + 40,000 in flight",
    ),
]


@pytest.mark.parametrize(("change", "expected"), IDENTITIES)
def test_the_accounting_identity_is_written_out_and_holds(change: dict[str, Any], expected: str) -> None:
    summary = replace(DONE, **change)
    assert identity(summary) == expected
    assert summary.accounted


def test_an_identity_that_does_not_hold_is_called_a_bug() -> None:
    wrong = replace(DONE, accepted=61)
    assert not wrong.accounted
    assert "does not add up" in text(wrong)
    assert "does not add up" not in text(DONE)


EXIT_CODES: list[tuple[str, RunSummary, dict[str, Any], int]] = [
    ("all well", CLEAN, {}, ExitCode.OK),
    ("an empty folder", replace(CLEAN, accepted=0, succeeded=0, duplicates=0), {}, ExitCode.OK),
    ("some failed", DONE, {}, ExitCode.SOME_FAILED),
    ("all failed", replace(DONE, accepted=4, succeeded=0, duplicates=0), {}, ExitCode.ALL_FAILED),
    ("only duplicates", replace(CLEAN, succeeded=0, duplicates=60), {}, ExitCode.OK),
    ("policy, not asked", CLEAN, {}, ExitCode.OK),
    ("policy, asked", CLEAN, {"strict": True}, ExitCode.POLICY),
    ("policy kept", replace(CLEAN, verdicts={"accepted": 59}), {"strict": True}, ExitCode.OK),
    ("failures before policy", DONE, {"strict": True}, ExitCode.SOME_FAILED),
    ("Ctrl-C", replace(DONE, interrupted=True), {}, ExitCode.SIGINT),
    ("SIGTERM", replace(DONE, interrupted=True), {"signal_number": signal.SIGTERM}, ExitCode.SIGTERM),
]


@pytest.mark.parametrize(("why", "summary", "options", "expected"), EXIT_CODES, ids=[row[0] for row in EXIT_CODES])
def test_the_exit_code_says_how_it_ended(
    why: str, summary: RunSummary, options: dict[str, Any], expected: ExitCode
) -> None:
    assert exit_code(summary, **options) == expected


def test_a_run_says_order_memory_time_slowest_output_and_what_to_type_next() -> None:
    assert text(DONE).splitlines() == [
        "60 accepted = 55 receipts + 1 duplicate + 4 failed + 0 in flight",
        "Order     as submitted: vouchers 1 to 60 of book main, head 3f9a1b2c3d4e",
        "Verdicts  accepted 40 · needs review 15",
        "Time      32 s, 1.87 documents/s, 66 pages",
        "Memory    ██████░░░░░░░░░░░░░░ 812 MiB at most, ceiling 2.4 GiB",
        "Slowest      3.2 s  a.jpg",
        "             2.0 s  b.jpg",
        "Output    out/receipts.jsonl",
        "State     .headrace",
        "Next      headrace dead list",
    ]


ROWS: list[tuple[dict[str, Any], str]] = [
    ({"order_ok": False}, "Order     BROKEN: vouchers 1 to 60"),
    ({"order_ok": None}, "Order     as they came: vouchers 1 to 60"),
    ({"first_voucher": None, "last_voucher": None}, "Order     no entries"),
    ({"peak_rss_bytes": 3000 * MIB}, "EXCEEDED"),
    ({"resumed_from": 1200}, "after 1,200 done before"),
    ({"interrupted": True, "left": 940}, "Stopped   940 left"),
    ({"output": "-"}, "Output    standard output"),
    ({"pages": 1}, "1 page"),
]


@pytest.mark.parametrize(("change", "expected"), ROWS)
def test_what_is_out_of_the_ordinary_is_said(change: dict[str, Any], expected: str) -> None:
    assert expected in text(replace(DONE, **change))


NEXT: list[tuple[dict[str, Any], str]] = [
    ({}, "headrace dead list"),
    ({"failed": 0}, "headrace verify"),
    ({"failed": 0, "workspace": "my state"}, "headrace verify --workspace 'my state'"),
    ({"interrupted": True}, "the same command again"),
    ({"left": 3}, "the same command again"),
]


@pytest.mark.parametrize(("change", "expected"), NEXT)
def test_the_next_command_suits_the_end(change: dict[str, Any], expected: str) -> None:
    assert next_command(replace(DONE, **change)).startswith(expected)


def test_failures_are_a_table_of_file_code_and_what_to_do() -> None:
    shown = [plain(line) for line in failure_lines(DONE, 100)]
    assert shown == [
        "scans/zero.jpg  empty-file          nothing to read: hand it in again",
        "x.pdf           encrypted-document  remove the password, then hand it in again",
        "and 2 more: headrace dead list",
    ]
    assert failure_lines(CLEAN, 100) == ()


def test_a_code_nobody_knows_shows_its_own_detail() -> None:
    odd = replace(DONE, failures=(FailedDocument("a", "from-the-future", "what\nhappened"),), more_failures=0)
    assert plain(failure_lines(odd, 100)[0]) == "a  from-the-future  what\\x0ahappened"


def test_every_way_a_document_can_fail_has_advice() -> None:
    codes = {
        kind.code for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.DocumentError)
    }
    codes |= {errors.WORKER_LOST, errors.DEADLINE, errors.MEMORY_LIMIT, errors.UNPICKLABLE_RESULT, errors.CANCELLED}
    assert codes <= set(ADVICE)


@given(st.integers(40, 200), st.lists(st.text(min_size=1, max_size=80), max_size=20))
def test_no_failure_row_is_wider_than_the_terminal(width: int, names: list[str]) -> None:
    summary = replace(DONE, failures=tuple(FailedDocument(name, "corrupt-document", name) for name in names))
    assert all(columns(plain(line)) <= width for line in failure_lines(summary, width))


def test_a_terminal_gets_frames_and_a_pipe_plain_lines() -> None:
    odd = replace(DONE, slowest=(("[red]:smile:.jpg", 1.0),))
    framed, piped = rendered(odd, terminal=True), rendered(odd, terminal=False)
    assert framed.startswith("╭─  4 failed")
    assert "╭" not in piped
    for shown in (framed, piped):
        assert "[red]:smile:.jpg" in shown
        assert "60 accepted = 55 receipts + 1 duplicate + 4 failed + 0 in flight" in shown
        assert "scans/zero.jpg" in shown
    assert all(columns(line) <= 80 for line in framed.splitlines())


def test_a_pipe_never_folds_a_line() -> None:
    long = replace(DONE, partial=1_000_000, accepted=1_000_060, succeeded=55, workspace="w" * 60)
    assert identity(long) in rendered(long, terminal=False, width=40)
