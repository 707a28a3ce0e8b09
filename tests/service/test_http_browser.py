"""What a person with a browser sees: problems that can be read, and how full the service is."""

from __future__ import annotations

import contextlib
import dataclasses
import re
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from html.parser import HTMLParser
from pathlib import Path

import httpx
import pytest
from http_service import HttpService, fresh, limits, open_edge
from paged_paper import PAGES, long_scan
from service_support import serving
from test_http_documents import accepted, problem
from test_http_progress import AVAILABLE, ENGINE

from headrace.service import browser
from headrace.service.auth import Keys, make_key
from headrace.service.edge import Edge
from headrace.service.limits import Limits, RequestLimits
from headrace.service.problems import Problem
from headrace.service.views import ServiceLimits

CHROME = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


class Page(HTMLParser):
    """What a page is made of."""

    def __init__(self, content: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(content)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


def page(answer: httpx.Response, status: int) -> Page:
    assert answer.status_code == status
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert answer.headers["cache-control"] == "no-store"
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    found = Page(answer.text)
    assert found.all("html") == [{"lang": "en"}]
    assert len(found.all("h1")) == len(found.all("main")) == len(found.all("title")) == 1
    addresses = [its.get("href") or its.get("src") or "" for _, its in found.tags if "href" in its or "src" in its]
    assert all(address.startswith(("/", "data:")) for address in addresses), addresses
    return found


@pytest.mark.parametrize(
    ("accept", "html"),
    [
        (CHROME, True), ("text/html", True), ("text/html, application/json", True), ("*/*", False), ("", False),
        ("application/json, text/html;q=0.9", False), ("application/problem+json, text/html", True),
        ("text/html;q=0, */*", False), ("text/html;q=rubbish", False), ("TEXT/HTML".lower(), True),
    ],
)  # fmt: skip
def test_html_goes_to_who_reads_it_at_least_as_gladly_as_json(accept: str, html: bool) -> None:
    assert browser.wants_page(accept) is html


def test_a_program_gets_json_and_a_browser_a_page_that_says_the_same(client: httpx.Client) -> None:
    address = "/v1/documents/d%3Cscript%3E"
    for path, status, code in (("/v1/nothing", 404, "not-found"), (address, 400, "malformed-request")):
        told = problem(client.get(path), status, code)
        answer = client.get(path, headers={"Accept": CHROME})
        shown = page(answer, status)
        assert answer.headers["vary"] == client.get(path).headers["vary"] == "Accept"
        assert told["title"] in shown.text
        assert code in shown.text
        assert answer.headers["traceparent"].split("-")[1] in shown.text
        assert not shown.all("script")
        assert not [its for its in shown.all("meta") if its.get("http-equiv")]  # there is nothing to wait for


def test_under_load_a_browser_is_told_when_to_come_back_and_a_get_comes_back_by_itself() -> None:
    told = limits(RequestLimits(streams=1, keep_alive_s=0.05))
    with HttpService(lambda: open_edge(told=told)) as service, service.client() as client:
        with service.client() as other, other.stream("GET", "/v1/events") as stream:
            lines = stream.iter_lines()  # held: the stream is closed when nobody has it any more
            next(lines)
            answer = client.get("/v1/events", headers={"Accept": CHROME})
        shown = page(answer, 429)
        again_s = answer.headers["retry-after"]
        assert int(again_s) >= 1
        (refresh,) = [its for its in shown.all("meta") if its.get("http-equiv") == "refresh"]
        assert refresh["content"] == again_s
        assert f"asks again in {again_s} second" in shown.text
        assert "Nothing is broken" in shown.text


def test_an_upload_that_is_refused_is_a_page_for_a_browser_and_is_not_sent_again_by_itself() -> None:
    with HttpService(open_edge) as service, service.client() as client:

        async def stop(edge: Edge) -> None:
            edge.reception._state = "draining"

        service.ask(stop)
        answer = client.post("/v1/documents", content=fresh(), headers={"Accept": CHROME})
        shown = page(answer, 503)
        assert not [its for its in shown.all("meta") if its.get("http-equiv")]
        assert f"Send it again in {answer.headers['retry-after']} second" in shown.text
        assert "outage, not load" in shown.text
        problem(client.post("/v1/documents", content=fresh()), 503, "draining")


def test_nothing_that_a_client_sent_becomes_part_of_the_page() -> None:
    nasty = Problem("not-found", "<script>alert('x')</script> & \"more\"", document_id="<b>")
    shown = browser.problem_page(nasty, method="GET", instance="/v1/<img src=x>\udce9", trace_id="<i>").decode()
    assert not re.search(r"<(script|img|b|i)[ >]", shown)
    assert "&lt;script&gt;alert" in shown


def test_the_page_of_the_service_shows_bounds_to_who_has_no_script_too(client: httpx.Client) -> None:
    answer = client.get("/")
    shown = page(answer, 200)
    assert "/v1/capacity" in [its.get("href") for its in shown.all("a")]
    assert shown.all("label") == [{"for": "secret"}]
    (script,) = shown.all("script")
    assert script == {}
    assert "script-src 'sha256-" in answer.headers["content-security-policy"]
    assert "style=" not in answer.text  # the policy would not let it through
    problem(client.get("/", headers={"Accept": "application/json"}), 406, "not-acceptable")
    assert client.get("/v1/capacity").json()["last_event_id"] >= 0


@contextlib.asynccontextmanager
async def watched_edge(keys: Path) -> AsyncIterator[Edge]:
    told = Limits(service=ServiceLimits(min_free_bytes=0))
    engine = ENGINE if ENGINE in AVAILABLE else "null"
    with tempfile.TemporaryDirectory() as folder:
        async with serving(Path(folder) / "w", told.service, engine=engine) as reception:
            yield Edge(reception, 64 << 20, Keys.load(keys), limits=dataclasses.replace(told))


@pytest.fixture
def chromium() -> Iterator[object]:
    if CHROMIUM is None:
        pytest.skip("Chromium is not installed here")
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed here")
    with playwright.sync_playwright() as play:
        window = play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        yield window
        window.close()


def test_in_chromium_the_page_asks_for_a_key_fills_its_bars_and_shows_what_happens(chromium, tmp_path: Path) -> None:
    path = tmp_path / "keys.toml"
    secret = make_key(path, "acme:submit,read")
    headers = {"Authorization": f"Bearer {secret}"}
    with HttpService(lambda: watched_edge(path)) as service, service.client(headers=headers) as client:
        first = accepted(client)
        window = chromium.new_page(color_scheme="dark")
        window.set_default_timeout(15_000)
        complaints: list[str] = []
        window.on("console", lambda said: complaints.append(said.text) if said.type == "error" else None)
        window.on("pageerror", lambda error: complaints.append(str(error)))
        asked: list[str] = []
        window.on("request", lambda request: asked.append(request.url))
        window.goto(service.url)
        window.get_by_label("This service wants a key").fill(secret)
        window.get_by_role("button", name="Use it").click()
        window.get_by_text("Documents are taken").wait_for()
        assert window.locator("meter").count() >= 4
        window.get_by_role("link", name=first["document_id"]).first.wait_for()  # it happened before the page came
        if ENGINE in AVAILABLE:
            slow = client.post("/v1/documents", content=long_scan()).json()["document_id"]
            window.locator(f"#page-{slow}").get_by_text(f"of {PAGES}").wait_for()
            assert client.delete(f"/v1/documents/{slow}").status_code == 204
            window.get_by_text("document.cancelled").first.wait_for()
            window.locator(f"#page-{slow}").wait_for(state="detached")
        background = window.evaluate("getComputedStyle(document.body).backgroundColor")
        assert background == "rgb(13, 20, 24)"
        assert all(url.startswith((service.url, "data:")) for url in asked)
        assert [text for text in complaints if "401" not in text] == []
