"""Metrics of an embedding service, read from the desk when asked for. Every label has a fixed set of values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from headrace.service.embedding.desk import Desk


def exposition(desk: Desk, problems: Mapping[str, int]) -> bytes:
    """All metrics as text."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_DeskCollector(desk, problems))
    return generate_latest(registry)


class _DeskCollector(Collector):
    def __init__(self, desk: Desk, problems: Mapping[str, int]) -> None:
        self._desk, self._problems = desk, problems

    def collect(self) -> Iterator[Metric]:
        desk, now = self._desk, self._desk.admission.statistics()
        for name, sentence, count in (
            ("requests", "Requests that got their vectors", desk.requests),
            ("texts", "Texts of those", desk.texts),
            ("tokens", "Tokens of those", desk.tokens),
            ("failed_texts", "Texts that the embedder gave no vector for", desk.failed),
            (
                "given_up",
                "Requests that ended without vectors: the client hung up, or the service stopped",
                desk.given_up,
            ),
        ):
            yield CounterMetricFamily(f"headrace_embedding_{name}", sentence, value=count)
        permits = now.permits
        for name, sentence, value in (
            ("inflight_tokens", "Tokens that are in", permits.held),
            ("inflight_tokens_limit", "Tokens that may be in", permits.limit),
            ("inflight_bytes", "Bytes of the bodies that are in", permits.held_bytes),
            ("inflight_requests", "Requests whose texts are in", desk.in_flight),
            ("shed_level", "0: all classes are taken; 3: none", int(now.level)),
            ("drain_rate_tokens_per_second", "Measured while more wait", now.drain_rate_per_s or float("nan")),
            ("ready", "1 while requests are taken", float(not desk.closed and desk.broken is None)),
        ):
            yield GaugeMetricFamily(f"headrace_embedding_{name}", sentence, value=value)
        refusals = CounterMetricFamily("headrace_embedding_refusals", "Refused", labels=["refusal", "class"])
        for (refusal, class_), count in sorted(desk.refused.items()):
            refusals.add_metric([refusal.lower(), class_.name.lower()], count)
        yield refusals
        answers = CounterMetricFamily("headrace_embedding_problems", "Answers that were no success", labels=["code"])
        for code, count in sorted(self._problems.items()):
            answers.add_metric([code], count)
        yield answers
