"""What clients say in headers, and what operators say in the file of limits: tables."""

from __future__ import annotations

import base64
import contextlib
import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.flow import Rate
from headrace.service.limits import LimitsError, RequestLimits, load_limits
from headrace.service.problems import Problem
from headrace.service.request_headers import (
    attachment,
    digest_header,
    filename,
    idempotency_key,
    matches,
    prefer_wait_s,
    promised_sha256,
    request_id,
    trace_of,
    version_of,
)


@pytest.mark.parametrize(
    ("header", "wait_s"),
    [("wait=10", 10), ("respond-async, wait=5", 5), ("Wait = 3", 3), ('wait="4"', 4), ("handling=lenient; wait=2", 2),
     ("", None), ("wait", None), ("wait=x", None), ("wait=-1", None), ("await=3", None), ("wait=0", 0)],
)  # fmt: skip
def test_prefer_wait(header, wait_s):
    assert prefer_wait_s(header) == wait_s


@pytest.mark.parametrize(("header", "version"), [('"3"', 3), ('"3r"', 3), ("*", None), (' "12" ', 12)])
def test_if_match_names_a_version(header, version):
    assert version_of(header) == version


@pytest.mark.parametrize("header", ['W/"3"', "3", '"x"', '"1", "2"', '""', '"-1"'])
def test_if_match_that_names_none_of_ours_fails(header):
    with pytest.raises(Problem) as raised:
        version_of(header)
    assert raised.value.status_code == 412


def test_if_none_match_compares_weakly():
    assert matches('W/"a", "b"', '"b"')
    assert matches('"a"', 'W/"a"')
    assert matches("*", '"x"')
    assert not matches('"ab"', '"a"')


@pytest.mark.parametrize(
    ("header", "name"),
    [
        ('attachment; filename="a.png"', "a.png"),
        ("attachment; filename=a.png", "a.png"),
        ("attachment; filename=\"x\"; filename*=UTF-8''na%C3%AFve%20.png", "naïve .png"),
        ('form-data; filename="a\\"b.png"', 'a"b.png'),
        ("attachment", ""),
        ("attachment; filename*=UTF-8''%FF", ""),
        ("attachment; filename*=klingon''x; filename=b.png", "b.png"),
        ("attachment; filename*=UTF-8''a%0Ab%E2%80%AEgnp", "a\\x0ab\\u202egnp"),
    ],
)
def test_file_names_are_for_display_only(header, name):
    assert filename(header) == name


@given(st.text(max_size=300))
def test_any_name_can_be_sent_back_in_a_header(name):
    header = attachment(name)
    assert header.isascii()
    assert header.isprintable()


def test_a_digest_goes_there_and_back():
    sha256 = "ab" * 32
    assert promised_sha256(digest_header(sha256), "") == sha256
    assert promised_sha256("", f"sha-512=:AAAA:, {digest_header(sha256)}") == sha256
    assert promised_sha256("md5=:AAAA:", "") is None


@pytest.mark.parametrize("value", ["sha-256=::", "sha-256=:AAAA:", f"sha-256=:{base64.b64encode(b'x' * 31).decode()}:"])
def test_a_digest_of_another_length_is_400(value):
    with pytest.raises(Problem) as raised:
        promised_sha256(value, "")
    assert raised.value.status_code == 400


def test_two_digests_that_differ_are_422():
    with pytest.raises(Problem) as raised:
        promised_sha256(digest_header("ab" * 32), digest_header("cd" * 32))
    assert raised.value.status_code == 422


@given(st.text(alphabet=st.characters(max_codepoint=255), max_size=300))
def test_a_key_is_taken_or_refused_and_never_changed(header):
    with contextlib.suppress(Problem):
        key = idempotency_key(header)
        assert key is None or key == header.strip().strip('"')


def test_only_traces_and_ids_that_are_safe_are_taken_over():
    good = f"00-{'a' * 32}-{'b' * 16}-01"
    assert trace_of(good) == ("a" * 32, "01")
    for bad in ("", f"00-{'0' * 32}-{'b' * 16}-01", good.upper(), good + "-x", f"ff-{'a' * 32}-{'b' * 16}-01"):
        assert trace_of(bad) is None
    assert request_id("a-b_1") == "a-b_1"
    assert request_id("a\r\nb") is request_id("") is request_id("x" * 129) is None


def test_a_file_of_limits_sets_what_it_names(tmp_path):
    path = tmp_path / "limits.toml"
    path.write_text(
        '[requests]\nstall_s = "500ms"\nbatch_bytes = "1GiB"\nparts = 3\nrequire_idempotency_key = true\n'
        '[service]\nacceptable_delay_s = 30\ndocuments = 7\nmin_free_bytes = "1MiB"\n'
        "[quotas.acme]\nper_s = 2\nburst = 20\nweight = 3\n[quotas.default]\nper_s = 1\n"
    )
    told = load_limits(path)
    assert told.requests == dataclasses.replace(
        RequestLimits(), stall_s=0.5, batch_bytes=1 << 30, parts=3, require_idempotency_key=True
    )
    assert (told.service.acceptable_delay_s, told.service.documents, told.service.min_free_bytes) == (30.0, 7, 1 << 20)
    assert told.service.quotas["acme"].rate == Rate(2, 20)
    assert told.service.quotas["acme"].weight == 3
    assert told.service.default_quota.rate == Rate(1)


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("[requests]\nstal_s = 1", "did you mean stall_s"),
        ("[request]\n", "request"),
        ("[requests]\nstall_s = 0", "above 0"),
        ("[requests]\nparts = true", "not a number"),
        ("[requests]\nparts = 1.5", "whole"),
        ("[requests]\nrequire_idempotency_key = 3", "neither"),
        ("[service]\nquotas = 3", "quotas"),
        ("[quotas.acme]\nper_s = 0", "above 0"),
        ("[quotas.acme]\nspeed = 1", "speed"),
        ("quotas = 3", "limits.toml"),
        ("[", "limits.toml"),
    ],
)
def test_a_file_of_limits_that_makes_no_sense_says_what_is_wrong(tmp_path, text, word):
    path = tmp_path / "limits.toml"
    path.write_text(text)
    with pytest.raises(LimitsError, match=word):
        load_limits(path)
