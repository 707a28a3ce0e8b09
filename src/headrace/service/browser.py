"""What a browser is shown: a problem as a page to read, and how full the service is. One template, all of it our own.

Programs get `application/problem+json`, as ever: HTML goes only to who names it in Accept before JSON.
"""

from __future__ import annotations

import base64
import hashlib
from html import escape
from importlib import resources
from string import Template
from typing import Any

from headrace.service.problems import Problem

MEDIA_TYPE = "text/html; charset=utf-8"


def _file(name: str) -> str:
    return resources.files("headrace.service").joinpath("static", name).read_text(encoding="utf-8")


_PAGE, _STYLE = Template(_file("page.html")), _file("page.css")
_STATUS, _SCRIPT = _file("status.html"), _file("status.js")

_MEANING = {
    429: "The service has as much to do as it can get done in time. Nothing is broken, and what it has accepted is "
    "being worked on.",
    503: "This is an outage, not load: it passes by itself, or somebody looks after it. What was accepted is safe.",
    500: "This is a bug on our side. The trace finds it in the log.",
}


def _policy(script: str = "") -> str:
    """What the page may load: its own style and script, by their digests, and our own addresses."""
    allowed = [f"style-src {_digest(_STYLE)}", "img-src data:", "base-uri 'none'", "form-action 'none'"]
    if script:
        allowed += [f"script-src {_digest(script)}", "connect-src 'self'"]
    return "; ".join(["default-src 'none'", "frame-ancestors 'none'", *allowed])


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


_PROBLEM_POLICY, _STATUS_POLICY = _policy(), _policy(_SCRIPT)


def headers(*, with_script: bool) -> dict[str, str]:
    """The headers of a page."""
    return {
        "Content-Type": MEDIA_TYPE,
        "Cache-Control": "no-store",
        "Content-Security-Policy": _STATUS_POLICY if with_script else _PROBLEM_POLICY,
        "Referrer-Policy": "no-referrer",
        "X-Content-Type-Options": "nosniff",
    }


def wants_page(accept: str) -> bool:
    """Whether who sent this Accept reads HTML, and does so at least as gladly as JSON."""
    if "text/html" not in accept:
        return False
    weights: dict[str, float] = {}
    for part in accept.lower().split(","):
        kind, *parameters = (piece.strip() for piece in part.split(";"))
        weight = next((p.removeprefix("q=") for p in parameters if p.startswith("q=")), "1")
        try:
            weights[kind] = float(weight)
        except ValueError:
            weights[kind] = 0.0
    json = max(weights.get("application/problem+json", 0.0), weights.get("application/json", 0.0))
    html = weights.get("text/html", 0.0)
    return html > 0 and html >= json


def problem_page(problem: Problem, *, method: str, instance: str, trace_id: str) -> bytes:
    """A problem for a person: what happens, what it means, and when to come back. A GET comes back by itself."""
    told = problem.as_dict(instance=instance, trace_id=trace_id)
    again_s = told.get("retry_after_seconds")
    comes_back = method in ("GET", "HEAD") and again_s is not None
    lines = [f'<p class="code">{problem.status_code}</p>', f"<h1>{escape(told['title'])}</h1>"]
    lines.append(f"<p>{escape(_sentence(told['detail']))}</p>")
    if problem.status_code in _MEANING:
        lines.append(f"<p>{_MEANING[problem.status_code]}</p>")
    if again_s is not None:
        when = f"{again_s} second{'' if again_s == 1 else 's'}"
        what = f"This page asks again in {when}." if comes_back else f"Send it again in {when}."
        lines.append(f"<p><strong>{what}</strong></p>")
    facts = {"problem": told["code"], "address": instance, "trace": trace_id, **_facts(told)}
    rows = "".join(f"<dt>{name}</dt><dd>{escape(str(value))}</dd>" for name, value in facts.items() if value)
    lines.append(f'<dl class="soft">{rows}</dl>')
    refresh = f'<meta http-equiv="refresh" content="{again_s}">\n' if comes_back else ""
    return _page(f"{problem.status_code} {told['title']}", "\n".join(lines), refresh=refresh)


def status_page() -> bytes:
    """How full the service is. It has no number in it: its script asks for them, with a key where one is needed."""
    return _page("headrace: how full it is", _STATUS, script=f"<script>{_SCRIPT}</script>\n")


def _page(title: str, main: str, *, refresh: str = "", script: str = "") -> bytes:
    return _PAGE.substitute(title=escape(title), main=main, style=_STYLE, refresh=refresh, script=script).encode(
        "utf-8", "backslashreplace"
    )


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "!", "?")) else ".")


def _facts(told: dict[str, Any]) -> dict[str, Any]:
    return {name.replace("_", " "): told.get(name) for name in ("document_id", "page", "limit", "actual")}
