"""`headrace demo`: receipts that are drawn, run, scored, verified and shown; nothing is needed but headrace itself."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headrace.cli.exit_codes import ExitCode
from headrace.cli.formats import counted

if TYPE_CHECKING:
    from headrace.dashboard.cards import Comparison
    from headrace.simulation.scoring import Score
    from headrace.simulation.truth import Truth

MARK = ".headrace-demo"
"""A file that says that the folder is the demo's own, so that it may be drawn afresh."""

_OWN = ("receipts", "workspace", "truth.jsonl", "receipts.jsonl", "report.html")
_SHOWN = 20


class FolderInUse(Exception):
    """The folder has things in it that no demo put there."""

    exit_code = ExitCode.OUTPUT


def demo(
    count: Annotated[int, typer.Option(min=1, max=10_000, metavar="COUNT", help="How many files to draw.")] = 60,
    folder: Annotated[
        Path, typer.Option("--dir", metavar="DIR", help="Where everything goes; an earlier demo there is replaced.")
    ] = Path("headrace-demo"),
    seed: Annotated[int, typer.Option(min=0, metavar="N", help="Which collection; the same seed, the same bytes.")] = 7,
    engine: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="What reads them: rapidocr or tesseract. [default: as configured]",
            show_default=False,
        ),
    ] = None,
) -> int:
    """Draw receipts of ten countries, some of them hostile, run them, score the result and write a report.

    Ends with 0 when every document ended as drawn, in order, and each field was read well enough; else with 3, and says
    what differs. The table of the score and the path of the report go to standard output.
    """
    from headrace.ingest.settings import RunSettings

    engine = RunSettings.load({"engine": engine}).engine
    if engine == "null":
        raise typer.BadParameter("the null engine reads nothing, so there is nothing to score", param_hint="--engine")
    from headrace.simulation.receipts import draw_collection
    from headrace.simulation.scoring import score

    _say(f"1/5  drawing {count} files (seed {seed}) into {folder / 'receipts'}")
    _make_room(folder)
    truths = draw_collection(folder / "receipts", count, seed)

    _say(f"2/5  headrace run {folder / 'receipts'} --engine {engine}")
    code = _run(folder, engine)
    if code not in (ExitCode.OK, ExitCode.SOME_FAILED):  # some of them are there to fail
        _say(f"the run ended with exit code {code}; there is nothing to score")
        return code

    _say("3/5  comparing what was read with what was drawn")
    found = score(_lines(folder / "receipts.jsonl"), truths)
    typer.echo(found.table())
    _say_differences(found)

    _say("4/5  recomputing the ledger's hash chain")
    chain_holds = _verify(folder / "workspace")

    _say("5/5  writing the report")
    from headrace.dashboard.report import write_report

    page = write_report(folder / "workspace", folder / "report.html", truth=_comparison(truths, found))
    as_drawn = found.ended_as_drawn and not found.below_floor and chain_holds
    _say(_ending(found) if as_drawn else f"NOT as drawn: {_what_differs(found, chain_holds)}")
    typer.echo(str(page))
    return ExitCode.OK if as_drawn else ExitCode.SOME_FAILED


def _make_room(folder: Path) -> None:
    """Makes the folder, or takes away what an earlier demo left in it; touches nothing else."""
    if folder.exists() and not (folder / MARK).is_file() and (not folder.is_dir() or any(folder.iterdir())):
        raise FolderInUse(f"{folder} exists and was not made by headrace demo; choose another --dir")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / MARK).write_text("Made by headrace demo, which may replace what it put here.\n")
    for name in _OWN:
        path = folder / name
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def _run(folder: Path, engine: str) -> int:
    """Runs `headrace run` as anybody would, in a process of its own; returns its exit code.

    Ctrl-C and SIGTERM are handed on, once each, so that the run drains and says what is left.
    """
    # -P: a queue.py in the current folder must not become part of headrace.
    command = [sys.executable, "-P", "-m", "headrace", "run", str(folder / "receipts"), "--engine", engine]
    command += ["--output", str(folder / "receipts.jsonl"), "--workspace", str(folder / "workspace")]
    # A group of its own: else a terminal sends Ctrl-C to it as well, and two of them stop without draining.
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=sys.stderr.fileno(), process_group=0)
    with child, _handing_on(child):
        return child.wait()


@contextmanager
def _handing_on(child: subprocess.Popen[bytes]) -> Iterator[None]:
    def hand_on(number: int, _: FrameType | None) -> None:
        child.send_signal(number)

    before = {number: signal.signal(number, hand_on) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)


def _verify(workspace: Path) -> bool:
    from headrace.dashboard.insights import verify_book
    from headrace.storage.sqlite import SqliteStore

    with SqliteStore.read(workspace) as store:
        for head in store.books():
            found = verify_book(store, head.book)
            if found.fault is not None:
                _say(f"     {found.fault.voucher}: {found.fault.reason}")
                return False
            entries = counted(found.count, "entry", "entries")
            _say(f"     {entries} of {head.book}: the chain holds, head {found.head.entry_hash[:16]}")
    return True


def _comparison(truths: Sequence[Truth], found: Score) -> Comparison:
    from headrace.dashboard.cards import Comparison

    differences: dict[str, list[str]] = {}
    for difference in found.differences:
        told = f"{difference.field}: drawn {difference.expected}, read {difference.found}"
        differences.setdefault(difference.file, []).append(told)
    notes = {t.file: ", ".join(word for word in (t.country, t.layout, t.wear) if word) for t in truths}
    return Comparison(found.rows(), notes, differences)


def _say_differences(found: Score) -> None:
    for difference in found.differences[:_SHOWN]:
        _say(f"     {difference}")
    if len(found.differences) > _SHOWN:
        _say(f"     and {len(found.differences) - _SHOWN} more; the report shows them")


def _ending(found: Score) -> str:
    misread = sum(tally.wrong for tally in found.fields.values())
    fields = sum(tally.total for tally in found.fields.values())
    return f"every document ended as drawn, in order; {misread} of {fields} fields were read differently"


def _what_differs(found: Score, chain_holds: bool) -> str:
    told = [str(d) for d in found.differences if d.field in ("outcome", "order")][:_SHOWN]
    told += [f"{name} was read exactly in {found.fields[name].share:.0%}" for name in found.below_floor]
    return "; ".join(told if chain_holds else [*told, "the hash chain does not hold"])


def _say(line: str) -> None:
    typer.echo(line, err=True)
