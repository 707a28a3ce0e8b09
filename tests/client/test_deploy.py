"""What deploy/ names exists: metrics, labels, options, times; and it can be parsed by whom it is for."""

from __future__ import annotations

import configparser
import json
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from drawn_paper import png
from prometheus_client.parser import text_string_to_metric_families
from service_process import ServiceProcess

from headrace.client import Client, Rejected
from headrace.ingest.options import OPTIONS, variable

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
_METRIC = re.compile(r"\b(headrace_[a-z_]+)(?:\{([^}]*)\})?")
_LABEL = re.compile(r"([a-z_]+)\s*(=~|!~|!=|=)\s*\"([^\"]*)\"")
_ADDED_BY_PROMETHEUS = {"instance", "job"}


@pytest.fixture(scope="module")
def exported(service: ServiceProcess) -> dict[str, set[str]]:
    """Every metric of /metrics, and its labels where it has a value."""
    with Client(service.url) as client:
        client.wait(client.submit(png("for the metrics")))
        with pytest.raises(Rejected):
            client.submit(b"")
    text = httpx.get(f"{service.url}/metrics").text
    found: dict[str, set[str]] = {}
    for family in text_string_to_metric_families(text):
        if family.type == "histogram":  # what is asked for are its buckets; sum and count come with them
            labels = {label for sample in family.samples for label in sample.labels}
            found[f"{family.name}_bucket"] = labels
            continue
        found.setdefault(f"{family.name}_total" if family.type == "counter" else family.name, set())
        for sample in family.samples:
            found.setdefault(sample.name, set()).update(sample.labels)
    return found


def rules() -> Iterator[dict[str, Any]]:
    for group in yaml.safe_load((DEPLOY / "alerts.yml").read_text())["groups"]:
        yield from group["rules"]


def dashboard() -> dict[str, Any]:
    told: dict[str, Any] = json.loads((DEPLOY / "grafana-dashboard.json").read_text())
    return told


def expressions() -> list[str]:
    shown = [target["expr"] for panel in dashboard()["panels"] for target in panel.get("targets", ())]
    asked = [
        variable["query"]["query"] for variable in dashboard()["templating"]["list"] if variable["type"] == "query"
    ]
    return [*shown, *asked, *(rule["expr"] for rule in rules())]


def test_every_metric_of_the_dashboard_and_the_alerts_is_exported_with_its_labels(
    exported: dict[str, set[str]],
) -> None:
    named = 0
    for expression in expressions():
        for name, selector in _METRIC.findall(expression):
            named += 1
            assert name in exported, expression
            labels = {label for label, _, _ in _LABEL.findall(selector)} - _ADDED_BY_PROMETHEUS
            # A counter that has counted nothing yet shows no labels; its name is all there is to compare.
            assert labels <= exported[name] or not exported[name], expression
    assert named >= 30


def test_every_metric_that_has_values_from_the_start_is_on_the_dashboard(exported: dict[str, set[str]]) -> None:
    shown = {name for expression in expressions() for name, _ in _METRIC.findall(expression)}
    assert set(exported) - shown <= {"headrace_permits_held", "headrace_permits_limit"}


def test_the_pools_gates_and_channels_that_are_named_exist(service: ServiceProcess) -> None:
    text = httpx.get(f"{service.url}/metrics").text
    for expression in expressions():
        for _, selector in _METRIC.findall(expression):
            for label, operator, value in _LABEL.findall(selector):
                if label in ("pool", "gate", "channel") and operator == "=":
                    assert f'{label}="{value}"' in text, expression


def test_refusals_and_problems_are_called_as_the_service_calls_them() -> None:
    from headrace.flow import Closed, Expired, Full, Shed
    from headrace.service.errors import RateLimited
    from headrace.service.problems import KINDS

    refusals = {kind.__name__.lower() for kind in (Full, Shed, Expired, Closed, RateLimited)}
    for expression in expressions():
        for _, selector in _METRIC.findall(expression):
            for label, _, value in _LABEL.findall(selector):
                if label == "refusal":
                    assert set(value.split("|")) <= refusals
                if label == "code":
                    assert set(value.split("|")) <= set(KINDS)


def test_load_and_outage_never_share_an_alert_and_each_alert_says_what_to_do() -> None:
    seen = set()
    for rule in rules():
        assert rule["labels"]["severity"] in ("warning", "critical")
        assert rule["annotations"]["summary"]
        assert rule["annotations"]["description"]
        assert rule["alert"] not in seen
        seen.add(rule["alert"])
        codes = set(re.findall(r"storage-full|store-unavailable|draining|internal-error", rule["expr"]))
        load = set(re.findall(r"full\||\bshed\b|expired", rule["expr"].replace("storage-full", "")))
        assert not (codes and load)
        if codes:
            assert rule["labels"]["kind"] == "outage"
    names = [rule["alert"] for rule in rules()]
    assert names.index("HeadraceFillsUp") < names.index("HeadraceLate"), "depth before latency"


def unit() -> configparser.ConfigParser:
    parser = configparser.ConfigParser(strict=False, interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read(DEPLOY / "headrace.service")
    return parser


def known_options() -> set[str]:
    helped = subprocess.run([sys.executable, "-m", "headrace", "serve", "--help"], capture_output=True, text=True)
    return set(re.findall(r"--[a-z][a-z-]+", helped.stdout))


def test_the_unit_waits_longer_than_a_drain_may_take_and_signals_the_main_process_only() -> None:
    service = unit()["Service"]
    drain_s = OPTIONS["drain_deadline_s"].default
    assert isinstance(drain_s, float)
    assert int(service["TimeoutStopSec"]) >= drain_s + 10
    assert (service["KillSignal"], service["KillMode"], service["Type"]) == ("SIGTERM", "mixed", "exec")
    assert service["MemoryMax"]
    assert service["OOMPolicy"] == "continue"


def test_what_the_unit_and_the_container_call_exists() -> None:
    program, command, *arguments = shlex.split(unit()["Service"]["ExecStart"])
    assert Path(program).name == "headrace"
    assert command == "serve"
    options = [argument for argument in arguments if argument.startswith("--")]
    container = (DEPLOY / "Dockerfile").read_text()
    called = re.findall(r'CMD \["serve", (.*)\]$', container, re.MULTILINE)
    options += re.findall(r"--[a-z-]+", called[0])
    assert options
    assert set(options) <= known_options()
    assert re.findall(r"HEADRACE_[A-Z_]+", container) == [variable("workspace")]
    assert "USER 10001" in container
    assert "STOPSIGNAL SIGTERM" in container


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed here")
def test_systemd_understands_the_unit(tmp_path: Path) -> None:
    text = (DEPLOY / "headrace.service").read_text().replace("/opt/headrace/bin/headrace", sys.executable)
    (tmp_path / "headrace.service").write_text(text)
    checked = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(tmp_path / "headrace.service")], capture_output=True, text=True
    )
    complaints = [line for line in checked.stderr.splitlines() if "headrace.service" in line]
    assert [line for line in complaints if "Unknown" in line or "ailed to parse" in line or "Invalid" in line] == []
