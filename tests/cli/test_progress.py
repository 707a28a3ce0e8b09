"""Progress: what a snapshot looks like in every width, and when it is shown."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from headrace.cli.formats import columns
from headrace.cli.panel import log_line, panel_lines, plain
from headrace.cli.progress import Display, Progress, choose_display, panel
from headrace.ingest.snapshot import Phase, Snapshot

MIB = 2**20
RUNNING = Snapshot(
    phase=Phase.READING, documents_done=1234, documents_total=40_000, total_is_final=True, pages=1300, per_second=18.42,
    eta_s=2105.0, failures=2, duplicates=5, window_used=35, window_limit=36, bytes_in_flight=12 * MIB,
    byte_budget=72 * MIB, oldest_age_s=2.13, slowest_uri="scans/IMG_1.jpg", slowest_age_s=3.2, rss_bytes=812 * MIB,
    rss_ceiling_bytes=2500 * MIB, workers_busy=2, workers=2, restarts=1,
)  # fmt: skip
EMPTY = Snapshot(
    phase=Phase.LISTING, documents_done=0, documents_total=None, total_is_final=False, pages=0, per_second=0.0,
    eta_s=None, failures=0, duplicates=0, window_used=0, window_limit=0, bytes_in_flight=0, byte_budget=0,
    oldest_age_s=0.0, slowest_uri=None, slowest_age_s=0.0, rss_bytes=0, rss_ceiling_bytes=0, workers_busy=0, workers=0,
    restarts=0,
)  # fmt: skip


def lines(snapshot: Snapshot, width: int = 76) -> list[str]:
    return [plain(line) for line in panel_lines(snapshot, width)]


def test_the_panel_of_a_terminal_of_80_columns_says_everything() -> None:
    assert lines(RUNNING) == [
        "█░░░░░░░░░░░░░░░░░░░░░░░   1,234 / 40,000 3.0%   18.4/s   35 min 05 s left",
        "failed 2   duplicates 5   pages 1,300   restarts 1",
        "window ██████████ 35 / 36   bytes 12 MiB / 72 MiB   oldest 2.1 s",
        "RSS ███░░░░░░░ 812 MiB / 2.4 GiB   workers 2/2 busy",
        "slowest scans/IMG_1.jpg 3.2 s",
    ]


def test_a_narrow_terminal_keeps_what_matters_most() -> None:
    assert lines(RUNNING, 36) == [
        "1,234 / 40,000 3.0%   18.4/s",
        "failed 2   duplicates 5",
        "window 35 / 36",
        "RSS 812 MiB / 2.4 GiB",
        "slowest scans/IMG_1.jpg 3.2 s",
    ]


def test_the_slowest_document_says_at_which_of_its_pages_it_is() -> None:
    long = replace(RUNNING, slowest_pages_done=22, slowest_pages=113)
    assert lines(long)[-1] == "slowest scans/IMG_1.jpg page 23 of 113 3.2 s"
    assert log_line(long).endswith("slowest scans/IMG_1.jpg page 23 of 113 3.2 s")
    assert "page 113 of 113" in log_line(replace(long, slowest_pages_done=113))
    assert "page" not in lines(replace(RUNNING, slowest_pages_done=0, slowest_pages=1))[-1]


HEADWAY = [
    ({"documents_total": None, "total_is_final": False, "eta_s": None}, "1,234 / ?   18.4/s   time left ?"),
    ({"total_is_final": False}, "1,234 / 40,000+   18.4/s"),  # no share of a total that still grows
    ({"documents_done": 39_999}, "39,999 / 40,000 99.9%"),  # never 100 % before the last
    ({"documents_done": 40_000, "phase": Phase.DONE}, "40,000 / 40,000 100.0%   18.4/s"),
    ({"eta_s": float("inf")}, "time left ?"),
    ({"eta_s": -3.0}, "0 s left"),
    ({"documents_done": 0, "documents_total": 0, "phase": Phase.DONE}, "0 / 0 100.0%"),
]


@pytest.mark.parametrize(("change", "expected"), HEADWAY)
def test_headway_is_never_more_sure_than_the_run_is(change: dict[str, Any], expected: str) -> None:
    assert expected in lines(replace(RUNNING, **change))[0]


@given(
    st.integers(1, 200),
    st.text(max_size=120) | st.none(),
    st.integers(0, 10**15),
    st.none() | st.integers(0, 10**15),
    st.floats(allow_nan=True),
)
def test_no_line_is_wider_than_the_terminal_whatever_the_values(
    width: int, uri: str | None, done: int, total: int | None, eta_s: float
) -> None:
    odd = replace(
        RUNNING, slowest_uri=uri, documents_done=done, documents_total=total, eta_s=eta_s, rss_bytes=done, pages=done
    )
    for snapshot in (odd, replace(odd, window_limit=0, rss_ceiling_bytes=0, phase=Phase.DONE)):
        for line in panel_lines(snapshot, width):
            assert columns(plain(line)) <= width
            assert plain(line).isprintable()
        assert log_line(snapshot).isprintable()


def test_before_anything_is_known_the_panel_says_so() -> None:
    assert lines(EMPTY)[0].endswith("0 / ?   0/s   time left ?")
    assert lines(EMPTY)[-1] == "slowest -"


def test_memory_near_its_ceiling_is_red() -> None:
    near = replace(RUNNING, rss_bytes=2400 * MIB)
    styles = {part.style for part in panel_lines(near, 76)[3]}
    assert "bold red" in styles
    assert "bold red" not in {part.style for part in panel_lines(RUNNING, 76)[3]}


def test_the_framed_panel_fits_and_shows_a_name_as_it_is() -> None:
    snapshot = replace(RUNNING, slowest_uri="[bold red]x[/] :smile:.jpg", phase=Phase.DRAINING)
    for width in (30, 80, 200):
        console = Console(width=width, file=io.StringIO(), force_terminal=True, color_system=None)
        console.print(panel(snapshot, width, 12.0))
        shown = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
        assert len(shown) == 7
        assert all(columns(line) <= width for line in shown)
        assert "draining" in shown[0]
    assert "[bold red]x[/] :smile:.jpg" in shown[5]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


DISPLAYS: list[tuple[dict[str, Any], dict[str, str], Display]] = [
    ({}, {}, Display.LIVE),
    ({}, {"NO_COLOR": "1"}, Display.LINES),
    ({}, {"NO_COLOR": ""}, Display.LIVE),  # no-color.org: only when it is not empty
    ({}, {"CI": "true"}, Display.LINES),
    ({}, {"TERM": "dumb"}, Display.LINES),
    ({"results_on_terminal": True}, {}, Display.LINES),
    ({"stream": io.StringIO()}, {}, Display.LINES),
    ({"json_logs": True}, {}, Display.JSON),
    ({"no_progress": True}, {}, Display.OFF),
    ({"quiet": True, "json_logs": True}, {}, Display.OFF),
]


@pytest.mark.parametrize(("options", "environment", "expected"), DISPLAYS)
def test_the_display_suits_the_place(options: dict[str, Any], environment: dict[str, str], expected: Display) -> None:
    assert choose_display(**{"stream": Terminal(), **options}, environment=environment) is expected


class Clock:
    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def test_elsewhere_a_line_every_five_seconds_and_one_for_each_phase() -> None:
    stream, clock = io.StringIO(), Clock()
    with Progress(Display.LINES, stream=stream, clock=clock) as progress:
        for _ in range(81):  # ten seconds of snapshots, eight a second
            progress.update(RUNNING)
            clock.now_s += 0.125
        progress.update(replace(RUNNING, phase=Phase.DRAINING))
        progress.update(replace(RUNNING, phase=Phase.DONE))
    shown = stream.getvalue().splitlines()
    assert [line.split(":")[0] for line in shown] == ["reading", "reading", "reading", "draining", "done"]
    assert "35 min 05 s left" in shown[0]
    assert "left" not in shown[-1]


def test_a_terminal_is_drawn_five_times_a_second_at_most() -> None:
    stream, clock = Terminal(), Clock()
    with Progress(Display.LIVE, stream=stream, clock=clock) as progress:
        for _ in range(100):
            progress.update(RUNNING)
            clock.now_s += 0.01
        progress.note("a note with [brackets]")
    drawn = stream.getvalue().count("18.4/s")
    assert 5 <= drawn <= 7  # five in a second, once more around the note and at the end
    assert "a note with [brackets]" in stream.getvalue()


def test_json_logs_are_one_object_a_line_whatever_is_in_a_name() -> None:
    stream = io.StringIO()
    with Progress(Display.JSON, stream=stream, clock=Clock()) as progress:
        progress.update(replace(RUNNING, slowest_uri="a\nb\u2028c\udce9", eta_s=float("nan")))
        progress.note("hello")
    first, second = (json.loads(line) for line in stream.getvalue().split("\n")[:-1])
    assert (first["event"], first["phase"], first["documents_done"], first["eta_s"]) == (
        "progress",
        "reading",
        1234,
        None,
    )
    assert first["slowest_uri"] == "a\nb\u2028c\udce9"
    assert (second["event"], second["message"]) == ("note", "hello")


def test_off_shows_no_progress_but_still_what_was_noted() -> None:
    stream = io.StringIO()
    with Progress(Display.OFF, stream=stream) as progress:
        progress.update(RUNNING)
        progress.note("stopping")
    assert stream.getvalue() == "headrace: stopping\n"


@pytest.mark.parametrize("display", [Display.LINES, Display.JSON, Display.LIVE])
def test_a_terminal_that_goes_away_does_not_end_the_run(display: Display) -> None:
    class Gone(Terminal):
        gone = False

        def write(self, text: str) -> int:
            if self.gone:
                raise OSError(5, "Input/output error")
            return super().write(text)

    stream = Gone()
    with Progress(display, stream=stream, clock=Clock()) as progress:
        stream.gone = True
        progress.update(RUNNING)
        progress.note("nobody hears")
        assert progress.display is Display.OFF
