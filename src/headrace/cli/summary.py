"""The end of a run in a few lines: does it add up, is it in order, what failed, where is it, what to type next."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from headrace.cli.exit_codes import ExitCode
from headrace.cli.formats import (
    columns,
    counted,
    cut,
    duration,
    number,
    readable_bytes,
    readable_rate,
    share_bar,
    shorten,
)
from headrace.cli.panel import Line, Part, plain
from headrace.documents.advice import ADVICE
from headrace.documents.document import printable
from headrace.documents.status import Verdict
from headrace.ingest.snapshot import FailedDocument, RunSummary

if TYPE_CHECKING:
    from rich.console import Console

_LABEL = 10
_SIGNAL_OFFSET = 128


def exit_code(summary: RunSummary, signal_number: int | None = None, *, strict: bool = False) -> int:
    """The exit code of a run that ended like this. Failures come before verdicts.

    Args:
        summary: how it ended.
        signal_number: the signal that stopped it, where one did; Ctrl-C is assumed when it is not known.
        strict: a receipt that needs review or was rejected counts, too.
    """
    if summary.interrupted:
        return _SIGNAL_OFFSET + signal_number if signal_number else ExitCode.SIGINT
    if failed := summary.failed + summary.known_failed:
        # The same command says the same of the same documents: those that failed before and were left out count, too.
        return ExitCode.ALL_FAILED if failed == summary.accepted + summary.known else ExitCode.SOME_FAILED
    objections = summary.verdicts.get(Verdict.REJECTED, 0) + summary.verdicts.get(Verdict.NEEDS_REVIEW, 0)
    return ExitCode.POLICY if strict and objections else ExitCode.OK


def identity(summary: RunSummary) -> str:
    """The accounting identity, written out: `60 accepted = 55 receipts + 1 duplicate + 4 failed + 0 in flight`."""
    terms = [counted(summary.succeeded, "receipt")]
    if summary.partial:
        terms.append(counted(summary.partial, "partial receipt"))
    terms.append(counted(summary.duplicates, "duplicate"))
    terms += [f"{number(summary.failed)} failed", f"{number(summary.in_flight)} in flight"]
    return f"{number(summary.accepted)} accepted = {' + '.join(terms)}"


def next_command(summary: RunSummary) -> str:
    """What to type next."""
    if summary.interrupted or summary.left:
        return "the same command again: it goes on where it stopped"
    if summary.failed or summary.known_failed:
        return f"headrace dead list{_workspace(summary)}"
    return f"headrace verify{_workspace(summary)}"


def summary_lines(summary: RunSummary, width: int) -> tuple[Line, ...]:
    """The summary without the failures, as lines; names are shortened so that none is wider than `width`."""
    lines: list[Line] = [(Part(identity(summary), "bold" if summary.accounted else "bold red"),)]
    if not summary.accounted:
        lines.append((Part("this does not add up: it is a bug in headrace, please report it", "bold red"),))
    room = width - _LABEL
    rows: list[tuple[str, Line]] = [
        ("Order", _order(summary)),
        ("Known", _known(summary)),
        ("Verdicts", _verdicts(summary)),
        ("Time", _time(summary)),
    ]
    rows += [("Memory", _memory(summary, room)), *_slowest(summary, room)]
    rows += [("Stopped", _stopped(summary)), ("Output", _output(summary, room))]
    rows += [
        ("State", (Part(shorten(summary.workspace, room)),)),
        ("Next", (Part(next_command(summary), "bold cyan"),)),
    ]
    lines += [(Part(f"{label:<{_LABEL}}", "dim"), *parts) for label, parts in rows if parts]
    return tuple(lines)


def failure_lines(summary: RunSummary, width: int) -> tuple[Line, ...]:
    """The failures as rows: file, code, what to do. On a narrow terminal the advice goes, not the file."""
    if not summary.failures:
        return ()
    code_width = max(columns(failure.code) for failure in summary.failures)
    advice_width = max(min(columns(_advice(failure)), 50) for failure in summary.failures)
    longest = max(columns(shorten(failure.uri, 10_000)) for failure in summary.failures)
    name_width = min(longest, max(20, width - code_width - advice_width - 4))
    lines = []
    for failure in summary.failures:
        name = shorten(failure.uri, name_width)
        padded = name + " " * (name_width - columns(name))
        line = [Part(padded, "cyan"), Part(f"  {failure.code:<{code_width}}", "red")]
        room = width - columns(padded) - code_width - 4
        if room >= 12:
            line.append(Part(f"  {cut(_advice(failure), room)}"))
        lines.append(tuple(line))
        if failure.observed:
            lines.append((Part(f"  {shorten(failure.observed, max(1, width - 2))}", "dim"),))
    if summary.more_failures:
        lines.append((Part(f"and {number(summary.more_failures)} more: headrace dead list{_workspace(summary)}"),))
    return tuple(lines)


def render(console: Console, summary: RunSummary) -> None:
    """Prints the summary: in a frame on a terminal, as plain lines elsewhere."""
    from rich.text import Text

    def text(lines: tuple[Line, ...]) -> Text:
        # Assembled, never parsed: a file called "[bold]" is shown as it is called.
        rows = (Text.assemble(*((part.text, part.style) for part in line)) for line in lines)
        return Text("\n").join(rows)

    if not console.is_terminal:
        for line in (*failure_lines(summary, console.width), *summary_lines(summary, console.width)):
            console.print(Text(plain(line)), soft_wrap=True)
        return
    from rich import box
    from rich.panel import Panel

    width = min(console.width, 120)
    if summary.failures:
        failed = Text(f" {number(summary.failed)} failed ", "bold red")
        rows = text(failure_lines(summary, width - 4))
        console.print(Panel(rows, title=failed, title_align="left", box=box.ROUNDED, border_style="red", width=width))
    good = exit_code(summary) == ExitCode.OK and summary.accounted
    style = "green" if good else "yellow"
    title = Text(f" {'interrupted' if summary.interrupted else 'done'} ", f"bold {style}")
    body = text(summary_lines(summary, width - 4))
    console.print(Panel(body, title=title, title_align="left", box=box.ROUNDED, border_style=style, width=width))


def _workspace(summary: RunSummary) -> str:
    return "" if summary.workspace == ".headrace" else f" --workspace {shlex.quote(summary.workspace)}"


def _known(summary: RunSummary) -> Line:
    if not summary.known:
        return ()
    failed = f"; {number(summary.known_failed)} of them failed" if summary.known_failed else ""
    return (Part(f"{number(summary.known)} left out: judged by an earlier run, and unchanged{failed}"),)


def _order(summary: RunSummary) -> Line:
    if summary.first_voucher is None or summary.last_voucher is None:
        return (Part("no entries"),)
    span = f"vouchers {number(summary.first_voucher)} to {number(summary.last_voucher)} of book {summary.book}"
    head = f", head {summary.head_hash[:12]}" if summary.head_hash else ""
    if summary.order_ok is None:
        return (Part(f"as they came: {span}{head}"),)
    if summary.order_ok:
        return (Part("as submitted", "green"), Part(f": {span}{head}"))
    return (Part("BROKEN", "bold red"), Part(f": {span}{head}"))


def _verdicts(summary: RunSummary) -> Line:
    order = [verdict for verdict in Verdict if summary.verdicts.get(verdict)]
    shown = " · ".join(f"{verdict.replace('_', ' ')} {number(summary.verdicts[verdict])}" for verdict in order)
    return (Part(shown),) if shown else ()


def _time(summary: RunSummary) -> Line:
    parts = f"{duration(summary.elapsed_s)}, {readable_rate(summary.per_second)} documents/s, "
    parts += counted(summary.pages, "page")
    resumed = f", after {number(summary.resumed_from)} done before" if summary.resumed_from else ""
    return (Part(parts + resumed),)


def _memory(summary: RunSummary, room: int) -> Line:
    over = summary.peak_rss_bytes > summary.rss_ceiling_bytes
    peak, ceiling = readable_bytes(summary.peak_rss_bytes), readable_bytes(summary.rss_ceiling_bytes)
    style = "bold red" if over else "green"
    said = f"{peak} at most, ceiling {ceiling}{' EXCEEDED' if over else ''}"
    if room < len(said) + 21:
        return (Part(said, style if over else ""),)
    return (Part(share_bar(summary.peak_rss_bytes, summary.rss_ceiling_bytes, 20), style), Part(f" {said}"))


def _slowest(summary: RunSummary, room: int) -> list[tuple[str, Line]]:
    rows: list[tuple[str, Line]] = []
    for index, (uri, seconds) in enumerate(summary.slowest[:3]):
        took = f"{duration(seconds):>8}  "
        rows.append(
            ("Slowest" if index == 0 else "", (Part(took), Part(shorten(uri, max(1, room - len(took))), "cyan")))
        )
    return rows


def _stopped(summary: RunSummary) -> Line:
    if not summary.interrupted and not summary.left:
        return ()
    return (Part(f"{number(summary.left)} left, kept in the workspace", "yellow"),)


def _output(summary: RunSummary, room: int) -> Line:
    if summary.output is None:
        return ()
    return (Part("standard output" if summary.output == "-" else shorten(summary.output, room)),)


def _advice(failure: FailedDocument) -> str:
    return ADVICE.get(failure.code) or printable(failure.detail)
