"""The arithmetic of bounds, on machines that exist only as a few files."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.flow.machine import Machine, available_cores, available_memory_bytes
from headrace.flow.sizing import (
    GIB,
    MIB,
    capacity,
    chunk_size,
    delay,
    readable_bytes,
    readable_rate,
    worker_count,
    worst_case_bytes,
)

V2_DEEP = "0::/kubepods/pod1/box\n"
V1 = "4:memory:/docker/abc\n3:cpu,cpuacct:/docker/abc\n0::/\n"


def machine(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


CORES = {
    "no cgroup at all": ({}, 8, 8),
    "v2 without a quota": ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "max 100000\n"}, 8, 8),
    "v2 quota of two cores": ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "200000 100000\n"}, 8, 2),
    "a core and a half is two workers": (
        {"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "150000 100000\n"}, 8, 2),
    "a tenth of a core is still one": ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "10000 100000\n"}, 8, 1),
    "the mask is smaller than the quota": (
        {"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "400000 100000\n"}, 3, 3),
    "a parent's quota binds": (
        {
            "proc/self/cgroup": V2_DEEP,
            "sys/fs/cgroup/kubepods/pod1/box/cpu.max": "max 100000\n",
            "sys/fs/cgroup/kubepods/pod1/cpu.max": "300000 100000\n",
            "sys/fs/cgroup/kubepods/cpu.max": "1600000 100000\n",
        }, 16, 3),
    "v1 quota": (
        {
            "proc/self/cgroup": V1,
            "sys/fs/cgroup/cpu,cpuacct/docker/abc/cpu.cfs_quota_us": "400000\n",
            "sys/fs/cgroup/cpu,cpuacct/docker/abc/cpu.cfs_period_us": "100000\n",
        }, 16, 4),
    "v1 mounted under the short name, host path not visible": (
        {
            "proc/self/cgroup": V1,
            "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "500000\n",
            "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
        }, 16, 5),
    "v1 without a quota": (
        {
            "proc/self/cgroup": V1,
            "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "-1\n",
            "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000\n",
        }, 16, 16),
    "a period of zero is no quota": ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "100000 0\n"}, 8, 8),
    "junk is no quota": ({"proc/self/cgroup": "junk\n0::/\n", "sys/fs/cgroup/cpu.max": "lots\n"}, 8, 8),
    "a path out of the namespace is not followed": (
        {"proc/self/cgroup": "0::/../../secret\n", "sys/fs/cgroup/cpu.max": "200000 100000\n"}, 8, 2),
}  # fmt: skip


@pytest.mark.parametrize(("files", "affinity", "expected"), CORES.values(), ids=CORES.keys())
def test_cores_are_the_smaller_of_mask_and_quota(
    tmp_path: Path, files: dict[str, str], affinity: int, expected: int
) -> None:
    found = available_cores(machine(tmp_path, files), affinity=affinity)
    assert found.value == expected
    assert found.because.endswith(f"= {expected}")


MEMINFO = "MemTotal:  8388608 kB\nMemAvailable:  6291456 kB\n"
MEMORY = {
    "what is free now": ({"proc/meminfo": MEMINFO}, 6 * GIB),
    "all memory where the kernel is too old to say": ({"proc/meminfo": "MemTotal: 8388608 kB\n"}, 8 * GIB),
    "v2 limit": (
        {"proc/meminfo": MEMINFO, "proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": f"{2 * GIB}\n"}, 2 * GIB),
    "v2 throttles before it kills": (
        {
            "proc/meminfo": MEMINFO,
            "proc/self/cgroup": "0::/\n",
            "sys/fs/cgroup/memory.max": f"{2 * GIB}\n",
            "sys/fs/cgroup/memory.high": f"{GIB}\n",
        }, GIB),
    "v2 without a limit": (
        {"proc/meminfo": MEMINFO, "proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "max\n"}, 6 * GIB),
    "a parent's limit binds": (
        {
            "proc/meminfo": MEMINFO,
            "proc/self/cgroup": V2_DEEP,
            "sys/fs/cgroup/kubepods/pod1/box/memory.max": f"{4 * GIB}\n",
            "sys/fs/cgroup/kubepods/memory.max": f"{3 * GIB}\n",
        }, 3 * GIB),
    "v1 limit": (
        {
            "proc/meminfo": MEMINFO,
            "proc/self/cgroup": V1,
            "sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes": f"{GIB}\n",
        }, GIB),
    "v1 writes no limit as a huge number": (
        {
            "proc/meminfo": MEMINFO,
            "proc/self/cgroup": V1,
            "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
        }, 6 * GIB),
    "a limit above what is free": (
        {"proc/meminfo": MEMINFO, "proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": f"{99 * GIB}\n"}, 6 * GIB),
}  # fmt: skip


@pytest.mark.parametrize(("files", "expected"), MEMORY.values(), ids=MEMORY.keys())
def test_memory_is_the_smaller_of_cgroup_limit_and_what_is_free(
    tmp_path: Path, files: dict[str, str], expected: int
) -> None:
    found = available_memory_bytes(machine(tmp_path, files))
    assert (found.value, found.unit) == (expected, "bytes")
    assert readable_bytes(expected) in found.because


def test_a_machine_that_says_nothing_of_its_memory_is_an_error_that_says_what_to_set(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="memory_limit_bytes"):
        available_memory_bytes(tmp_path)


def test_this_machine_can_be_read() -> None:
    here = Machine.read()
    assert here.cores.value >= 1
    assert here.memory_bytes.value > 64 * MIB


@pytest.mark.parametrize(
    ("arrival_per_s", "delay_s", "expected"),
    [(2, 30, 60), (0.5, 1, 1), (0.001, 1, 1), (3.4, 10, 34), (1000, 0.0015, 2)],
)
def test_capacity_is_littles_law_rounded_up(arrival_per_s: float, delay_s: float, expected: int) -> None:
    assert capacity(arrival_per_s, delay_s).value == expected


def test_delay_is_littles_law_read_the_other_way() -> None:
    assert delay(60, 2).value == 30
    assert delay(60, 2).because == "60 / 2 per s = 30 s"


WORKERS = [
    (2, 24 * GIB, GIB, GIB, 2),  # cores bind
    (64, 5 * GIB, GIB, GIB, 4),  # memory binds
    (8, 2 * GIB - 1, GIB, GIB, 0),  # not even one fits
    (8, 2 * GIB, GIB, GIB, 1),  # exactly one fits
    (8, GIB, 2 * GIB, GIB, 0),  # the parent alone is too large
]


@pytest.mark.parametrize(("cores", "memory", "parent", "worker", "expected"), WORKERS)
def test_workers_are_one_a_core_as_far_as_memory_goes(
    cores: int, memory: int, parent: int, worker: int, expected: int
) -> None:
    found = worker_count(cores, memory, parent, worker)
    assert found.value == expected
    assert found.because.endswith(f"= {expected}")
    assert f"{cores} cores" in found.because


@given(st.integers(1, 256), st.integers(0, 2**44), st.integers(0, 2**40), st.integers(1, 2**40))
def test_the_worst_case_of_derived_workers_never_exceeds_the_memory(
    cores: int, memory: int, parent: int, worker: int
) -> None:
    workers = worker_count(cores, memory, parent, worker).value
    assert workers == 0 or worst_case_bytes(parent, workers, worker).value <= memory


@pytest.mark.parametrize(
    ("budget", "item", "at_most", "expected"),
    [(10 * MIB, MIB, 64, 10), (10 * MIB, MIB, 4, 4), (MIB, 10 * MIB, 64, 1), (MIB, MIB, 64, 1)],
)
def test_a_chunk_fits_its_budget_and_is_never_empty(budget: int, item: int, at_most: int, expected: int) -> None:
    assert chunk_size(budget, item, at_most).value == expected


@pytest.mark.parametrize("nonsense", [0, -1, float("nan"), float("inf")])
def test_nonsense_is_refused_by_name(nonsense: float) -> None:
    with pytest.raises(ValueError, match="arrival_per_s"):
        capacity(nonsense, 1)
    with pytest.raises(ValueError, match="delay_s"):
        capacity(1, nonsense)
    with pytest.raises(ValueError, match="departure_per_s"):
        delay(1, nonsense)


@pytest.mark.parametrize(
    ("size", "expected"),
    [(0, "0 B"), (7, "7 B"), (1023, "1023 B"), (1024, "1 KiB"), (1536, "1.5 KiB"),
     (27 * 1024 + 3, "27 KiB"), (640 * MIB, "640 MiB"),
     (int(23.4 * GIB), "23.4 GiB"), (2000 * GIB, "2,000 GiB")],
)  # fmt: skip
def test_sizes_are_written_for_people(size: int, expected: str) -> None:
    assert readable_bytes(size) == expected


@pytest.mark.parametrize(("rate", "expected"), [(1.1765, "1.18"), (44.44, "44.4"), (2000.0, "2,000"), (0.0, "0")])
def test_rates_are_written_for_people(rate: float, expected: str) -> None:
    assert readable_rate(rate) == expected
