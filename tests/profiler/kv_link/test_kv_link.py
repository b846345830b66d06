"""Measuring a link: plan, fit, and a real measurement."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import profiler.kv_link.measure as measure
from profiler.errors import EngineDiedError, EngineHungError, LinkError
from profiler.kv_link.fit import LEAST_LATENCY_S, FloatArray, fit_link
from profiler.kv_link.measure import LinkPlan, measure_link

MIB = 1 << 20
SIZES = np.array([1, 2, 4, 8, 16, 32, 64], dtype=np.float64) * MIB


def log_error(line: tuple[float, float], seconds: FloatArray) -> float:
    latency_s, bytes_per_s = line
    return float(np.abs(np.log((latency_s + SIZES / bytes_per_s) / seconds)).sum())


@pytest.mark.parametrize("seed", range(20))
def test_no_line_on_a_fine_grid_fits_much_better(seed: int) -> None:
    """Twin: every latency and bandwidth of a grid around the fitted ones. The fit looks only at
    lines through two sizes."""
    rng = np.random.default_rng(seed)
    seconds = 1e-3 + SIZES / 2e9 * rng.uniform(0.5, 2.0, SIZES.size)
    fitted = fit_link(SIZES, seconds)
    own, least = log_error(fitted, seconds), np.inf
    for latency_s in np.linspace(LEAST_LATENCY_S, seconds.min(), 60):
        for bytes_per_s in fitted[1] * np.geomspace(0.2, 5.0, 121):
            least = min(least, log_error((float(latency_s), float(bytes_per_s)), seconds))
    assert own <= 1.05 * least


@pytest.mark.parametrize("factor", [0.02, 5.0])
def test_odd_sizes_do_not_bend_the_line(factor: float) -> None:
    seconds = 2e-4 + SIZES / 12e9
    seconds[[2, 4]] *= factor
    latency_s, bytes_per_s = fit_link(SIZES, seconds)
    assert latency_s == pytest.approx(2e-4)
    assert bytes_per_s == pytest.approx(12e9)


def test_small_sizes_that_are_far_too_fast_leave_the_bandwidth_alone() -> None:
    seconds = (
        np.array([0.24, 0.57, 11.9, 22.8, 55.6, 108.1, 193.5]) * 1e-3
    )  # seen on a busy machine
    _, bytes_per_s = fit_link(SIZES, seconds)
    assert bytes_per_s == pytest.approx(SIZES[-1] / seconds[-1], rel=0.2)


def test_a_latency_below_zero_is_never_found() -> None:
    seconds = SIZES / 1e9 * np.linspace(1.0, 2.0, SIZES.size)
    latency_s, bytes_per_s = fit_link(SIZES, seconds)
    assert latency_s == LEAST_LATENCY_S
    assert 0.4e9 < bytes_per_s < 1.1e9


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        (LinkPlan(sizes_bytes=(MIB,)), "sizes must be at least two, all different, none below"),
        (LinkPlan(sizes_bytes=(1024, MIB)), "none below a block; got sizes of 1024 to"),
        (LinkPlan(memory_bytes=MIB), "the largest size must fit the memory"),
        (LinkPlan(repeats=1), "repeats be at least 3"),
    ],
)
def test_a_plan_that_cannot_be_measured_is_one_line(plan: LinkPlan, message: str) -> None:
    with pytest.raises(LinkError, match=message):
        measure_link(plan)


def fake_end(monkeypatch: pytest.MonkeyPatch, folder: Path, body: str) -> None:
    """An endpoint that does something else, and a NIXL that is there."""
    (folder / "odd_endpoint.py").write_text(body)
    monkeypatch.setenv("PYTHONPATH", str(folder), prepend=":")
    monkeypatch.setattr(measure, "ENDPOINT", "odd_endpoint")
    monkeypatch.setattr(measure, "find_spec", lambda name: object())


def test_an_end_that_fails_is_one_line_with_what_it_printed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fake_end(monkeypatch, tmp_path, "import sys; print('no such device'); sys.exit(3)\n")
    with pytest.raises(EngineDiedError, match="failed: its process ended with 3") as caught:
        measure_link()
    assert caught.value.__notes__ == ["no such device"]


def test_an_end_that_is_silent_is_given_up(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fake_end(monkeypatch, tmp_path, "import sys; sys.stdin.read()\n")
    monkeypatch.setattr(measure, "OPEN_TIMEOUT_S", 0.3)
    with pytest.raises(EngineHungError, match=r"was silent for 0\.3 s"):
        measure_link()


CHANGED = """
import json, os, sys

for line in sys.stdin:
    name = json.loads(line)["command"]
    if name == "stop":
        break
    answer = {"event": "done", "metadata": "", "address": 0, "seconds": [1.0], "from_blocks": [0]}
    answer["digest"] = os.getpid()
    os.write(int(sys.argv[1]), json.dumps(answer).encode() + b"\\n")
"""


def test_bytes_that_arrive_changed_are_no_link(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fake_end(monkeypatch, tmp_path, CHANGED)
    with pytest.raises(EngineDiedError, match="1048576 bytes arrived changed"):
        measure_link()


@pytest.mark.engine
def test_the_progress_thread_rests() -> None:
    """NIXL's Python API asks for a thread that polls without a pause."""
    pytest.importorskip("nixl_cu12", reason="NIXL is not installed: stallfree[nixl]")
    from nixl_cu12 import _bindings
    from nixl_cu12._api import nixl_agent

    from profiler.engines.progress_thread import resting_progress_thread

    plain = _bindings.nixlAgentConfig
    with resting_progress_thread(nixl_agent):
        config = _bindings.nixlAgentConfig()
        config.pthrDelay = 0
        config.lthrDelay = 7
    assert (config.pthrDelay, config.lthrDelay) == (1000, 7)
    assert _bindings.nixlAgentConfig is plain
