"""The upper half of the report: the accounting identity with its proofs, and what the batch looks like in charts."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence

from headrace.dashboard.charts import Share, columns, legend, line_chart, ring
from headrace.dashboard.insights import Insights, Spend
from headrace.dashboard.markup import Html, join, tag
from headrace.documents.entry import format_voucher
from headrace.documents.status import EntryKind, Verdict
from headrace.flow.sizing import GIB, MIB, readable_bytes

_CURRENCIES_SHOWN, _MONTHS_SHOWN, _ROWS_SHOWN = 12, 12, 8
_BATCHES_SHOWN = 6
_RARITY = ("far-from-usual", "same-day", "round-sum", "weekend")  # what is seldom comes first

_WAVES = Html(
    '<svg viewBox="0 0 26 26" aria-hidden="true"><path d="M2 8c4-5 7-5 11 0s7 5 11 0M2 14c4-5 7-5 11 0s7 5 11 0'
    'M2 20c4-5 7-5 11 0s7 5 11 0"/></svg>'
)


def overview(insights: Insights) -> Html:
    """The head of the page; opens `main`, which the page closes."""
    return join(
        [
            Html('<header class="top">'),
            tag(
                "div",
                tag("div", _WAVES, "headrace", class_="brand"),
                tag("h1", _sentence(insights)),
                tag("p", _circumstances(insights)),
                tag("p", _surroundings(insights)),
            ),
            Html("</header><main>"),
            tag("section", _identity(insights), tag("div", join(_proofs(insights)), class_="proofs"), class_="panel"),
        ]
    )


def panels(insights: Insights, comparison: Sequence[Sequence[str]]) -> Html:
    """The charts and lists; `comparison` is the table of a score, its first row the head, empty for none."""
    shares = _shares(insights)
    ended = tag("div", ring("How the documents ended", shares), legend(shares), class_="split")
    return join(
        [
            tag(
                "section",
                _panel("How they ended", ended),
                _throughput(insights),
                _memory(insights),
                _window(insights),
                class_="panels",
            ),
            tag("section", _money(insights.spend), class_="panels one") if insights.spend else None,
            tag(
                "section",
                _failures(insights),
                _slowest(insights),
                _merchants(insights.spend),
                _anomalies(insights),
                _score(comparison),
                class_="panels",
            ),
        ]
    )


def _sentence(insights: Insights) -> str:
    accounts = insights.accounts
    if accounts.in_flight or not insights.batch.listed:
        return f"{accounts.done:,} of {accounts.accepted:,} documents so far"
    if not accounts.accepted:
        return "No documents"
    return (
        f"{accounts.accepted:,} documents, every one accounted for" if accounts.holds else "The accounts do not add up"
    )


def _circumstances(insights: Insights) -> str:
    batch = insights.batch
    told = [f"Book {batch.book}"]
    if batch.started_at:
        told.append(f"{dt.datetime.fromtimestamp(batch.started_at, dt.UTC):%Y-%m-%d %H:%M} UTC")
    if insights.engine:
        told.append(f"engine {insights.engine}")
    if insights.ceilings.workers:
        told.append(f"{insights.ceilings.workers} workers")
    if insights.elapsed_s:
        told.append(f"{_duration(insights.elapsed_s)}")
    return ", ".join(told)


def _surroundings(insights: Insights) -> str:
    """Which batch this is, and what the workspace has beside it."""
    this, ids = insights.batch.batch_id, insights.batch_ids
    letters = insights.dead_letters
    told = [f"Batch {this} of {max(ids, default=this)}"]
    told.append(f"{letters:,} dead letter{' waits' if letters == 1 else 's wait'} in this workspace" if letters else "")
    others = [other for other in reversed(ids) if other != this]
    if others:
        named = ", ".join(str(other) for other in others[:_BATCHES_SHOWN])
        left_out = insights.batch_count - 1 - len(others[:_BATCHES_SHOWN])
        more = f" and {left_out:,} earlier" if left_out > 0 else ""
        told.append(f"other batches: {named}{more} (headrace report --batch {others[0]})")
    return "; ".join(part for part in told if part)


def _identity(insights: Insights) -> Html:
    accounts = insights.accounts
    terms = [
        (accounts.succeeded, "receipt" if accounts.succeeded == 1 else "receipts"),
        (accounts.partial, "partial"),
        (accounts.duplicates, "duplicate" if accounts.duplicates == 1 else "duplicates"),
        (accounts.failed, "failed"),
        (accounts.in_flight, "in flight"),
    ]
    parts = [tag("span", tag("b", f"{accounts.accepted:,}"), "accepted")]
    for at, (count, label) in enumerate(terms):
        sign = "+" if at else ("=" if accounts.holds else "≠")
        parts += [tag("span", sign, class_="sign"), tag("span", tag("b", f"{count:,}"), label)]
    return tag("div", *parts, class_="identity")


def _proofs(insights: Insights) -> list[Html]:
    chain, accounts = insights.chain, insights.accounts
    vouchers = (
        f"vouchers {insights.first_voucher:,} to {insights.last_voucher:,}"
        if insights.first_voucher
        else "no entries yet"
    )
    proofs = [
        _proof(accounts.holds, "Nothing lost", "every accepted document has one outcome, or is in flight"),
        _proof(insights.in_order, "In order", f"entries come in submission order, {vouchers}"),
        _proof(
            chain.holds,
            "Chain verified" if chain.holds else f"Chain broken at {chain.fault.voucher if chain.fault else ''}",
            f"{chain.count:,} entries of {insights.batch.book}, head {chain.head.entry_hash[:16]}…"
            if chain.fault is None
            else chain.fault.reason,
        ),
    ]
    peak, ceiling = insights.peak_rss_bytes, insights.ceilings.rss_bytes
    if not peak:
        proofs.append(_proof(None, "Memory", "the run was too short for a sample"))
    elif ceiling is None:
        proofs.append(
            _proof(None, f"Memory {readable_bytes(peak)}", "peak of all processes; the ceiling was not recorded")
        )
    else:
        proofs.append(
            _proof(
                peak <= ceiling,
                "Memory under its ceiling" if peak <= ceiling else "Memory over its ceiling",
                f"peak {readable_bytes(peak)} of {readable_bytes(ceiling)}, all processes",
            )
        )
    return proofs


def _proof(holds: bool | None, title: str, detail: str) -> Html:
    style = "proof" if holds else ("proof unknown" if holds is None else "proof broken")
    return tag("div", tag("b", title), tag("span", detail), class_=style)


def _shares(insights: Insights) -> list[Share]:
    verdicts = insights.verdicts
    return [
        Share("accepted", verdicts.get(Verdict.ACCEPTED, 0), "ok"),
        Share("needs review", verdicts.get(Verdict.NEEDS_REVIEW, 0), "review"),
        Share("rejected", verdicts.get(Verdict.REJECTED, 0), "rejected"),
        Share("duplicate", insights.kinds.get(EntryKind.DUPLICATE, 0), "duplicate"),
        Share("failed", insights.kinds.get(EntryKind.FAILURE, 0), "failed"),
    ]


def _panel(title: str, *children: Html | None) -> Html:
    return tag("article", tag("h2", title), *children, class_="panel")


def _headline(value: str, label: str) -> Html:
    return tag("p", value, " ", tag("small", label), class_="headline")


def _throughput(insights: Insights) -> Html:
    points = [(s.at_s, s.documents_per_s) for s in insights.samples]
    overall = insights.accounts.done / insights.elapsed_s if insights.elapsed_s else 0.0
    return _panel(
        "Throughput",
        _headline(f"{overall:.2f}" if overall < 10 else f"{overall:,.0f}", "documents per second overall"),
        line_chart("Documents per second over time", points, unit=lambda value: f"{value:g}"),
    )


def _memory(insights: Insights) -> Html:
    ceiling = insights.ceilings.rss_bytes
    # In whole units of the larger one, so that the axis has round numbers.
    unit, name = (GIB, "GiB") if max(insights.peak_rss_bytes, ceiling or 0) >= 2 * GIB else (MIB, "MiB")
    points = [(s.at_s, s.rss_bytes / unit) for s in insights.samples]
    return _panel(
        "Memory of all processes",
        _headline(readable_bytes(insights.peak_rss_bytes), "at the peak"),
        line_chart(
            "Resident memory over time",
            points,
            limit=ceiling / unit if ceiling else None,
            limit_label="ceiling",
            unit=lambda value: f"{value:g} {name}",
        ),
    )


def _window(insights: Insights) -> Html:
    points = [(s.at_s, float(s.window_used)) for s in insights.samples]
    most = max((s.window_used for s in insights.samples), default=0)
    limit = insights.ceilings.window
    return _panel(
        "Window",
        _headline(f"{most:,}" + (f" of {limit:,}" if limit else ""), "not yet handed on, at most"),
        line_chart("Window used over time", points, limit=limit, unit=lambda value: f"{value:g}"),
    )


def _money(spend: Mapping[str, Spend]) -> Html:
    rows = []
    for currency, of in list(spend.items())[:_CURRENCIES_SHOWN]:
        months = sorted((month, total) for month, total in of.months.items() if month[:1].isdigit())[-_MONTHS_SHOWN:]
        name = currency or "no currency"
        rows.append(
            tag(
                "li",
                tag("b", f"{of.total:,} {name}"),
                tag("span", f"of which {of.not_reviewed:,} not reviewed", class_="quiet") if of.not_reviewed else None,
                columns(f"{name} by month", [(month, float(total), f"{total:,}") for month, total in months]),
                tag("span", _months(of.count, [month for month, _ in months]), class_="quiet"),
            )
        )
    more = len(spend) - len(rows)
    return _panel(
        "Spend by currency",
        tag("ul", join(rows), class_="money"),
        tag("p", f"and {more} more currencies", class_="quiet") if more > 0 else None,
    )


def _months(count: int, months: Sequence[str]) -> str:
    receipts = f"{count:,} receipt" + ("s" if count != 1 else "")
    if not months:
        return receipts
    return f"{receipts}, {months[0]}" + (f" to {months[-1]}" if len(months) > 1 else "")


def _bars(rows: Sequence[tuple[str, float, str]]) -> Html:
    top = max((value for _, value, _ in rows), default=0.0) or 1.0
    return tag(
        "ul",
        join(
            tag(
                "li",
                tag("span", label, title=label),
                tag("b", told),
                tag("meter", min=0, max=f"{top:g}", value=f"{value:g}", aria_label=label),
            )
            for label, value, told in rows
        ),
        class_="bars",
    )


def _failures(insights: Insights) -> Html:
    rows = sorted(insights.failures.items(), key=lambda pair: (-pair[1], pair[0]))[:_ROWS_SHOWN]
    checks = sorted(insights.failed_checks.items(), key=lambda pair: (-pair[1], pair[0]))[:_ROWS_SHOWN]
    return _panel(
        "Why documents failed",
        _bars([(code, count, f"{count:,}") for code, count in rows])
        if rows
        else tag("p", "None failed.", class_="quiet"),
        tag("h2", "Checks that did not pass", class_="second") if checks else None,
        _bars([(name, count, f"{count:,}") for name, count in checks]) if checks else None,
    )


def _slowest(insights: Insights) -> Html:
    rows = [(slow.uri.rsplit("/", 1)[-1], slow.elapsed_s, f"{slow.elapsed_s:.2f} s") for slow in insights.slowest]
    return _panel("Slowest documents", _bars(rows[:_ROWS_SHOWN]) if rows else tag("p", "None yet.", class_="quiet"))


def _merchants(spend: Mapping[str, Spend]) -> Html:
    rows = [
        (f"{name} ({count})", float(count), f"{total:,} {currency}")
        for currency, of in spend.items()
        for name, total, count in of.top_merchants()
        if name
    ]
    rows.sort(key=lambda row: (-row[1], row[0]))
    return _panel("Merchants seen most", _bars(rows[:_ROWS_SHOWN]) if rows else tag("p", "None read.", class_="quiet"))


def _anomalies(insights: Insights) -> Html | None:
    """What an auditor may look at, each with its reason; nothing of it changed a verdict."""
    digits = insights.first_digits
    if not insights.anomalies and digits.conforms is None:
        return None
    rows = [
        tag("li", tag("code", format_voucher(insights.batch.book, found.sequence)), f" {found.reason}")
        for found in sorted(insights.anomalies, key=lambda a: (_RARITY.index(a.kind), a.sequence))[: 2 * _ROWS_SHOWN]
    ]
    told = ", ".join(f"{count:,} {kind}" for kind, count in sorted(insights.anomaly_counts.items()))
    benford = None
    if digits.conforms is not None:
        word = "follow" if digits.conforms else "do not follow"
        benford = f"First digits of {digits.count:,} totals of the book {word} Benford's law"
        benford += f" (deviation {digits.deviation:.4f})."
    return _panel(
        "Worth a look",
        tag("p", f"{told}. For information: no verdict depends on it.", class_="quiet") if told else None,
        tag("ul", join(rows), class_="checks") if rows else None,
        tag("p", benford, class_="quiet") if benford else None,
    )


def _score(rows: Sequence[Sequence[str]]) -> Html | None:
    if not rows:
        return None
    head = tag("thead", tag("tr", join(tag("th", cell, scope="col") for cell in rows[0])))
    body = tag("tbody", join(tag("tr", join(tag("td", cell) for cell in row)) for row in rows[1:]))
    return _panel("Read as drawn", tag("table", head, body))


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
