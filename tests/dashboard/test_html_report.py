"""The report is one whole, self-contained, bounded page, and nothing that a document says can become part of it."""

from __future__ import annotations

import base64
import hashlib
import re
from html.parser import HTMLParser
from io import BytesIO
from pathlib import Path

import pytest
from made_workspace import FAILURE, Fill, Made, picture, value
from PIL import Image

from headrace.dashboard.cards import Comparison
from headrace.dashboard.report import NothingToReport, write_report
from headrace.documents.status import DocumentState
from headrace.storage.errors import UnknownBatch, WorkspaceMissing
from headrace.storage.sqlite import SqliteStore

HOSTILE = "\"'><script>alert(1)</script><img src=x onerror=alert(2)>&amp;"
_VOID = {"img", "input", "meta", "link", "br", "hr"}


class Page(HTMLParser):
    """Checks that tags nest, and keeps what can load or run something."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.wrong: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in _VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.wrong.append(tag)

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] not in ("script", "style"):
            self.texts.append(data)

    def having(self, tag: str, name: str = "", part: str = "") -> list[dict[str, str | None]]:
        return [a for t, a in self.tags if t == tag and (not name or part in (a.get(name) or "").split())]

    @property
    def cards(self) -> list[dict[str, str | None]]:
        return self.having("article", "class", "card")


def report(workspace: Path, tmp_path: Path, **more: object) -> tuple[str, Page]:
    path = write_report(workspace, tmp_path / "report.html", **more)  # type: ignore[arg-type]
    html = path.read_text(encoding="utf-8")
    return html, Page(html)


@pytest.fixture
def varied(fill: Fill, tmp_path: Path) -> Path:
    data = picture(tmp_path / "one.jpg")
    return fill(
        [
            Made("one.jpg", data=data),
            Made("copy.jpg", data=data),
            Made("broken.jpg", failure=FAILURE),
            Made("doubt.jpg", total=None, data=picture(tmp_path / "doubt.jpg", shade=90)),
            Made("part.jpg", state=DocumentState.PARTIAL, data=picture(tmp_path / "part.jpg", shade=50)),
        ]
    )


def test_the_page_is_well_formed(varied: Path, tmp_path: Path) -> None:
    html, page = report(varied, tmp_path)
    assert html.startswith("<!doctype html>")
    assert page.wrong == []
    assert page.open == []
    assert len(page.cards) == 5


def test_the_page_loads_nothing_from_anywhere(varied: Path, tmp_path: Path) -> None:
    html, page = report(varied, tmp_path)
    for tag, attributes in page.tags:
        for name in ("src", "href", "srcset", "data", "poster", "action", "xlink:href"):
            found = attributes.get(name)
            assert found is None or found.startswith(("data:image/jpeg;base64,", "#")), (tag, name, found)
    assert not {tag for tag, _ in page.tags} & {"link", "iframe", "object", "embed", "base", "form"}
    assert not re.search(r"url\(|@import|fetch\(|XMLHttpRequest|https?://", html)


def test_the_policy_allows_only_the_script_and_the_style_that_are_in_the_page(varied: Path, tmp_path: Path) -> None:
    html, page = report(varied, tmp_path)
    (policy,) = [a["content"] or "" for a in page.having("meta") if a.get("http-equiv") == "Content-Security-Policy"]
    assert policy.startswith("default-src 'none'")
    for kind in ("style", "script"):
        (source,) = re.findall(f"<{kind}>(.*?)</{kind}>", html, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in policy
    assert not any(name.startswith("on") or name == "style" for _, attributes in page.tags for name in attributes)


def test_hostile_names_and_texts_are_shown_and_never_run(fill: Fill, tmp_path: Path) -> None:
    check = {
        "id": HOSTILE,
        "passed": False,
        "expected": HOSTILE,
        "actual": HOSTILE,
        "message": HOSTILE,
        "severity": "warn",
    }
    failure = dict(FAILURE) | {"code": HOSTILE, "detail": HOSTILE, "stage": HOSTILE, "page": 3}
    hostile = value(HOSTILE, polygon=[[HOSTILE, 0], [1, 0], [1, 1], [0, 1]])
    workspace = fill(
        [
            Made(
                HOSTILE.replace("/", "_"),
                merchant=HOSTILE,
                currency=HOSTILE,
                date=HOSTILE,
                checks=[check],
                extra={"tax_amount": hostile, "pages": HOSTILE},
                data=picture(tmp_path / "x.jpg"),
            ),
            Made("copy", data=(tmp_path / "x.jpg").read_bytes()),
            Made("broken", failure=failure),
        ]
    )
    truth = Comparison([(HOSTILE, HOSTILE), (HOSTILE, HOSTILE)], {"broken": HOSTILE}, {"broken": [HOSTILE]})
    html, page = report(workspace, tmp_path, truth=truth)
    assert page.wrong == page.open == []
    assert len(page.having("script")) == 1
    assert all((image["src"] or "").startswith("data:") for image in page.having("img"))
    assert "<script>alert" not in html
    assert HOSTILE in page.texts
    assert not any(name.startswith("on") for _, attributes in page.tags for name in attributes)


def test_a_name_that_is_no_text_is_shown_escaped(fill: Fill, tmp_path: Path) -> None:
    workspace = fill([Made("bad-\udc96\n-name.jpg", merchant="half \ud800 pair")])
    _, page = report(workspace, tmp_path)
    assert any("bad-\\x96\\x0a-name.jpg" in text for text in page.texts)
    assert any("half \\ud800 pair" in text for text in page.texts)


def test_the_accounts_the_order_the_chain_and_the_ceiling_are_at_the_top(varied: Path, tmp_path: Path) -> None:
    _, page = report(varied, tmp_path)
    told = " ".join(page.texts)
    assert "5 documents, every one accounted for" in told
    for proof in ("Nothing lost", "In order", "Chain verified", "Memory under its ceiling", "104 MiB of 900 MiB"):
        assert proof in told
    assert len(page.having("div", "class", "proof")) == 4
    assert not page.having("div", "class", "broken")


def test_a_run_that_goes_on_is_shown_as_far_as_it_is(fill: Fill, tmp_path: Path) -> None:
    _, page = report(fill([Made("a.jpg")], left=4, samples=1), tmp_path)
    told = " ".join(page.texts)
    assert "1 of 5 documents so far" in told
    assert "Too short to draw" in told


def test_a_batch_of_which_nothing_has_ended_is_a_page_too(fill: Fill, tmp_path: Path) -> None:
    _, page = report(fill([], left=2, samples=0), tmp_path)
    assert page.wrong == page.open == []
    assert "No document has ended yet." in page.texts


def test_pictures_are_small_upright_jpegs_with_the_boxes_of_the_fields_over_them(fill: Fill, tmp_path: Path) -> None:
    turned = BytesIO()
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.new("RGB", (1200, 400), "white").save(turned, "JPEG", exif=exif)
    _, page = report(fill([Made("turned.jpg", data=turned.getvalue())]), tmp_path)
    (image,) = page.having("img")
    jpeg = base64.b64decode((image["src"] or "").removeprefix("data:image/jpeg;base64,"))
    with Image.open(BytesIO(jpeg)) as small:
        assert small.format == "JPEG"
        assert small.size == (320, 960)
    boxes = page.having("polygon", "class", "box")
    assert [box["class"] for box in boxes] == ["box merchant", "box date", "box total"]
    assert boxes[0]["points"] == "0.1000,0.1000 0.5000,0.1000 0.5000,0.2000 0.1000,0.2000"


def test_a_page_that_was_turned_to_be_read_is_shown_as_it_was_read(fill: Fill, tmp_path: Path) -> None:
    """The boxes are those of the upright page, and no EXIF says how it lies: the receipt does."""
    lying = Image.new("L", (900, 600), 255)
    lying.paste(0, (0, 0, 900, 100))
    data = BytesIO()
    lying.save(data, "PNG")
    turned = {"page_readings": [{"page": 1, "rotation_applied": 90}]}
    _, page = report(fill([Made("lying.png", data=data.getvalue(), extra={"processing": turned})]), tmp_path)
    (image,) = page.having("img")
    jpeg = base64.b64decode((image["src"] or "").removeprefix("data:image/jpeg;base64,"))
    with Image.open(BytesIO(jpeg)) as small:
        assert small.size == (320, 480)
        assert small.getpixel((310, 240)) < 50, "what was at the top is at the right"
        assert small.getpixel((10, 240)) > 200


def test_a_very_tall_page_shows_its_upper_part_and_says_so(fill: Fill, tmp_path: Path) -> None:
    data = picture(tmp_path / "tall.jpg", size=(400, 3200))
    _, page = report(fill([Made("tall.jpg", data=data)]), tmp_path)
    (image,) = page.having("img")
    assert (image["width"], image["height"]) == ("320", "1280")
    assert "upper part" in page.texts
    assert (
        page.having("polygon", "class", "box")[0]["points"] == "0.1000,0.2000 0.5000,0.2000 0.5000,0.4000 0.1000,0.4000"
    )


def test_a_source_that_is_gone_or_changed_gives_a_card_without_a_picture(fill: Fill, tmp_path: Path) -> None:
    workspace = fill(
        [Made("gone.jpg"), Made("changed.jpg", data=picture(tmp_path / "y.jpg")), Made("text.jpg", data=b"text")]
    )
    picture(tmp_path / "sources" / "changed.jpg", shade=1)
    _, page = report(workspace, tmp_path)
    assert len(page.cards) == 3
    assert page.having("img") == []
    told = " ".join(page.texts)
    assert "it does not exist" in told
    assert "the file has changed since it was read" in told
    assert "of no kind that is read" in told


def test_a_document_that_failed_is_never_opened_again(fill: Fill, tmp_path: Path) -> None:
    failure = dict(FAILURE) | {"code": "worker-lost", "retriable": True}
    workspace = fill([Made("killer.jpg", failure=failure, data=picture(tmp_path / "k.jpg"))])
    _, page = report(workspace, tmp_path)
    assert page.having("img") == []
    told = " ".join(page.texts)
    assert "worker-lost" in told
    assert "headrace dead replay d" in told


def test_cards_are_bounded_and_the_urgent_ones_come_first(fill: Fill, tmp_path: Path) -> None:
    documents = [Made(f"{n}.jpg") for n in range(40)]
    documents[30].failure = FAILURE
    documents[35].total = None
    documents[38].data = documents[39].data = b"the same"
    html, page = report(fill(documents), tmp_path, cards_limit=5)
    shown = [card["data-show"] for card in page.cards]
    assert shown == ["ok", "ok", "failed", "review", "duplicate"]
    assert [card["id"] for card in page.cards] == [f"main-{n:06}" for n in (1, 2, 31, 36, 40)]
    assert "5 of 40 documents: failed and needs review first." in html


def test_the_size_of_the_page_does_not_grow_with_the_batch(fill: Fill, tmp_path: Path) -> None:
    few, _ = report(fill([Made(f"{n}.jpg", merchant=f"M{n:04}") for n in range(50)]), tmp_path, cards_limit=20)
    (tmp_path / "workspace").rename(tmp_path / "old")
    many, _ = report(fill([Made(f"{n}.jpg", merchant=f"M{n:04}") for n in range(1000)]), tmp_path, cards_limit=20)
    assert abs(len(many) - len(few)) < 2_000


def test_the_truth_is_shown_beside_what_was_read(varied: Path, tmp_path: Path) -> None:
    truth = Comparison(
        [("", "right"), ("total", "4 of 5")],
        {"one.jpg": "US slip, faded", "doubt.jpg": "DE fuel"},
        {"doubt.jpg": ["total should be 12.00, is missing"]},
    )
    _, page = report(varied, tmp_path, truth=truth)
    assert {"4 of 5", "US slip, faded", "as drawn", "total should be 12.00, is missing"} <= set(page.texts)


def test_a_report_that_cannot_be_finished_leaves_the_old_one_and_nothing_else(
    varied: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    (folder / "report.html").write_text("the old one")

    def fail(*_: object) -> str:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("headrace.dashboard.report._filters", fail)
    with pytest.raises(OSError, match="No space"):
        write_report(varied, folder / "report.html")
    assert [path.name for path in folder.iterdir()] == ["report.html"]
    assert (folder / "report.html").read_text() == "the old one"


def test_what_is_not_there_is_said(fill: Fill, tmp_path: Path) -> None:
    with pytest.raises(WorkspaceMissing):
        write_report(tmp_path / "none", tmp_path / "r.html")
    with pytest.raises(UnknownBatch):
        write_report(fill([Made("a.jpg")]), tmp_path / "r.html", batch_id=7)
    SqliteStore.open(tmp_path / "empty").close()
    with pytest.raises(NothingToReport, match="headrace run"):
        write_report(tmp_path / "empty", tmp_path / "r.html")
    assert not (tmp_path / "r.html").exists()


def test_the_page_says_which_batch_it_shows_and_what_is_beside_it(fill: Fill, tmp_path: Path) -> None:
    fill([Made("a.jpg", failure=FAILURE), Made("b.jpg")])
    _, page = report(fill([Made("c.jpg")]), tmp_path)
    told = " ".join(page.texts)
    assert "Batch 2 of 2; 1 dead letter waits in this workspace; other batches: 1" in told


def test_money_that_nobody_looked_at_is_marked(fill: Fill, tmp_path: Path) -> None:
    doubted = Made("a.jpg", total="378.06", date=None)
    _, page = report(fill([doubted, Made("b.jpg", total="21.94")]), tmp_path)
    told = " ".join(page.texts)
    assert "400.00 EUR" in told
    assert "of which 378.06 not reviewed" in told
