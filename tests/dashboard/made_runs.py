"""Run folders in every state, for tests and benchmarks of the dashboard.

Figures of the huge run's trials are made up (a smooth function of the settings and noise), because
5,000 real trials take minutes; everything else in these folders is what the product itself wrote.
"""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from profiler.traffic.synthetic import like
from tests.tuner.search.conftest import tuned, write_fleet_study
from tuner.results import RunFolder
from tuner.search.run_state import Phase, RunState, save_state

HUGE_TRIALS, HUGE_REQUESTS = 5000, 20_000


def copy_of(finished: Path, place: Path, state: RunState | None = None) -> Path:
    """A run folder like `finished` at `place`; with a `state`, one that has no results yet."""
    shutil.copytree(finished, place)
    if state is not None:
        (place / "results.json").unlink()
        save_state(RunFolder(place), state)
    return place


def storage_of_all_states(finished: Path, root: Path) -> Path:
    """`root` with a run in every state, named after it; `killed` says that it runs, unlocked."""
    copy_of(finished, root / "finished")
    copy_of(finished, root / "queued", RunState(Phase.QUEUED))
    copy_of(finished, root / "killed", RunState(Phase.RUNNING, "searching 8 configurations", 3, 8))
    copy_of(finished, root / "stopped", RunState(Phase.STOPPED, "searching 8 configurations", 3, 8))
    why = "the engine did not start: no such model; check engine.model"
    copy_of(finished, root / "failed", RunState(Phase.FAILED, error=why))
    return root


def fleet_with_verdict(finished: Path, place: Path) -> Path:
    """A finished run of fleets at `place`, each replica as `finished`'s profile says."""
    place.parent.mkdir(parents=True, exist_ok=True)
    study = write_fleet_study(place.parent / f"{place.name}.yaml", finished, {})
    return tuned(study, RunFolder(place)).path


def huge(finished: Path, place: Path, seed: int = 0) -> Path:
    """A run like `finished` with 5,000 trials and traffic of 20,000 requests."""
    copy_of(finished, place)
    folder = RunFolder(place)
    trace = like("azure-conv-2023", duration_s=None, rate_rps=6.0, seed=1)
    trace = trace.cap(max_prompt_tokens=1500, max_output_tokens=16)
    whole = trace.take(np.arange(min(HUGE_REQUESTS, trace.num_requests)))
    whole.save(folder.trace)
    results = folder.load_results()
    points = _points(results.front[0], np.random.default_rng(seed))
    folder.save_results(replace(results, front=points, trials=HUGE_TRIALS))
    return place


def _points(first: dict[str, Any], rng: np.random.Generator) -> list[dict[str, Any]]:
    """The engine default, then made-up trials; a fifth of them miss the SLOs."""
    budgets = np.exp(rng.uniform(np.log(128), np.log(2048), HUGE_TRIALS)).astype(int)
    caps = rng.choice([0, 128, 256], HUGE_TRIALS)
    noise = rng.lognormal(0.0, 0.1, (HUGE_TRIALS, 3))
    itl = 0.004 + 3e-5 * budgets * noise[:, 0]
    ttft = 0.2 + 90.0 / budgets * noise[:, 1]
    goodput = 6.0 * np.clip(1.3 - itl / 0.06, 0.05, 1.0) * noise[:, 2]
    feasible = (itl <= 0.05) & (rng.uniform(size=HUGE_TRIALS) > 0.05)
    best = np.minimum.accumulate(np.where(feasible, ttft, np.inf)[np.argsort(itl)])
    on_front = np.zeros(HUGE_TRIALS, dtype=bool)
    on_front[np.argsort(itl)] = np.isfinite(best) & (
        np.where(feasible, ttft, np.inf)[np.argsort(itl)] == best
    )
    found = [first | {"on_front": False}]
    for i in range(1, HUGE_TRIALS):
        found.append(
            {
                "number": i,
                "settings": first["settings"]
                | {
                    "max_num_batched_tokens": int(budgets[i]),
                    "long_prefill_token_threshold": int(caps[i]),
                },
                "ttft_p99_s": float(ttft[i]),
                "itl_p99_s": float(itl[i]),
                "goodput_rps": float(goodput[i]),
                "intervals": {
                    "ttft_p99_s": [0.8 * float(ttft[i]), 1.3 * float(ttft[i])],
                    "itl_p99_s": [0.9 * float(itl[i]), 1.1 * float(itl[i])],
                },
                "chance": {"all": float(rng.integers(0, 9)) / 8 if feasible[i] else 0.0},
                "feasible": bool(feasible[i]),
                "on_front": bool(on_front[i]),
            }
        )
    return found
