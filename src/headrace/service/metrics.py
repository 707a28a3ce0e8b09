"""Metrics for Prometheus, read from the reception at the moment they are asked for: nothing is counted twice.

No label is a client, a document or a file name: every label has a fixed, small set of values.
"""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from headrace.service.edge import Edge
from headrace.service.reception import CapacityView
from headrace.service.tallies import STAGES, Tallies
from headrace.service.views import IndexingState, IndexingView


class Exposition:
    """All metrics as text: what this service has, and nothing of other libraries."""

    def __init__(self, edge: Edge) -> None:
        self._edge = edge
        self._collector = ServiceCollector(edge)
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self._collector)

    async def text(self) -> bytes:
        """The metrics now. Asks the store for two numbers, and does not wait for it long."""
        self._collector.stock = await self._edge.reception.stock()
        return generate_latest(self._registry)


class ServiceCollector(Collector):
    """Reads everything when it is scraped; `stock`, which the store has, is set before: (dead letters, last entry)."""

    def __init__(self, edge: Edge) -> None:
        self._edge = edge
        self.stock: tuple[int, int] | None = None

    def collect(self) -> Iterator[Metric]:
        """The metrics now."""
        view = self._edge.reception.capacity()
        health = self._edge.reception.health()
        yield from _work(view)
        yield from _measured(self._edge.reception.tallies)
        if self.stock is not None:
            dead, sequence = self.stock
            yield _gauge("headrace_dead_letters", "Failed documents that nobody has run again", dead)
            yield _gauge("headrace_ledger_sequence", "The number of the last entry of the book", sequence)
        yield from _refusals(view, self._edge)
        yield from _bounds(view)
        yield from _indexing(view.indexing)
        yield _gauge("headrace_ready", "1 while new work is taken", float(health.ready))
        yield _gauge("headrace_streams", "Event streams and followed results that are open", self._edge.streams)
        problems = CounterMetricFamily("headrace_http_problems", "Answers that were no success", labels=["code"])
        for code, count in sorted(self._edge.answers.items()):
            problems.add_metric([code], count)
        yield problems
        tries = CounterMetricFamily("headrace_webhook_deliveries", "Tries to deliver", labels=["outcome"])
        for outcome, count in sorted(self._edge.reception.webhooks.outcomes.items()):
            tries.add_metric([outcome], count)
        yield tries


def _work(view: CapacityView) -> Iterator[Metric]:
    documents = CounterMetricFamily("headrace_documents", "Documents that ended", labels=["outcome"])
    for outcome, count in sorted(view.outcomes.items()):
        documents.add_metric([outcome], count)
    yield documents
    yield CounterMetricFamily("headrace_accepted_documents", "Documents that were accepted", value=view.accepted)
    yield _gauge("headrace_inflight_documents", "Accepted and not yet in the ledger", view.in_flight)
    rate = view.drain_rate_per_s
    name = "headrace_drain_rate_documents_per_second"
    yield _gauge(
        name, "Documents that leave per second, measured while more wait", float("nan") if rate is None else rate
    )
    ages = GaugeMetricFamily(
        "headrace_oldest_eligible_age_seconds", "Age of the oldest that could start", labels=["channel"]
    )
    ages.add_metric(["all"], view.oldest_eligible_age_s)
    for class_, its in view.classes.items():
        ages.add_metric([class_.name.lower()], its.oldest_age_s)
    yield ages
    depth = GaugeMetricFamily("headrace_channel_depth", "Documents that wait for a worker", labels=["channel"])
    for class_, its in view.classes.items():
        depth.add_metric([class_.name.lower()], its.waiting)
    yield depth
    capacity = GaugeMetricFamily(
        "headrace_channel_capacity", "Documents that may be in; all channels share it", labels=["channel"]
    )
    for class_ in view.classes:
        capacity.add_metric([class_.name.lower()], view.bound("documents").limit or 0)
    yield capacity
    yield _gauge("headrace_workers", "Worker processes", view.workers)
    yield _gauge("headrace_workers_busy", "Worker processes that read a document now", view.workers_busy)
    restarts = CounterMetricFamily("headrace_worker_restarts", "Workers that were replaced", labels=["reason"])
    for reason, count in sorted(view.worker_restarts.items()):
        restarts.add_metric([reason], count)
    yield restarts
    memory = GaugeMetricFamily("headrace_worker_rss_bytes", "Resident memory of each worker", labels=["worker"])
    for number, rss_bytes in enumerate(view.worker_rss_bytes, 1):
        memory.add_metric([str(number)], rss_bytes)
    yield memory


def _measured(tallies: Tallies) -> Iterator[Metric]:
    yield CounterMetricFamily("headrace_pages", "Pages of the documents that ended", value=tallies.pages)
    durations = HistogramMetricFamily(
        "headrace_stage_duration_seconds", "Time that a document took in each stage", labels=["stage"]
    )
    for stage in STAGES:
        durations.add_metric([stage], buckets=tallies.buckets(stage), sum_value=tallies.seconds[stage])
    yield durations


def _refusals(view: CapacityView, edge: Edge) -> Iterator[Metric]:
    refusals = CounterMetricFamily("headrace_refusals", "Refused before a byte was read", labels=["refusal", "class"])
    for (refusal, class_), count in sorted(edge.refused.items()):
        refusals.add_metric([refusal.lower(), class_.name.lower()], count)
    yield refusals
    yield _gauge("headrace_shed_level", "0: all classes are taken; 3: none", int(view.level))


def _bounds(view: CapacityView) -> Iterator[Metric]:
    held = GaugeMetricFamily("headrace_permits_held", "How much of a bound is used", labels=["pool"])
    limit = GaugeMetricFamily("headrace_permits_limit", "How much of it there is", labels=["pool"])
    for bound in view.bounds:
        held.add_metric([bound.name], bound.used)
        if bound.limit is not None:
            limit.add_metric([bound.name], bound.limit)
        if bound.unit == "bytes" and bound.name == "accepted_bytes":
            yield _gauge("headrace_inflight_bytes", "Bytes of what is accepted and not in the ledger", bound.used)
    yield held
    yield limit
    gate = GaugeMetricFamily("headrace_gate_open", "1 while the class is taken", labels=["gate"])
    for class_, its in view.classes.items():
        gate.add_metric([class_.name.lower()], float(its.taken))
    yield gate


def _indexing(view: IndexingView) -> Iterator[Metric]:
    states = GaugeMetricFamily("headrace_indexing", "1 for what keeping up search is doing now", labels=["state"])
    for state in IndexingState:
        states.add_metric([state], float(state is view.state))
    yield states
    yield CounterMetricFamily("headrace_indexed_receipts", "Receipts that got a vector", value=view.embedded)


def _gauge(name: str, sentence: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, sentence, value=value)
