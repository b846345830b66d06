"""A small finished run, made by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from profiler.outcomes import TokenTimes, outcomes_from_token_times
from tuner.candidate import Candidate, Evidence, Verdict
from tuner.intervals import over_windows
from tuner.metrics import compute
from tuner.results import Results
from tuner.saved_replay import SavedReplay
from tuner.slo import Limits, Slo

SLO = Slo(("default",), (Limits(ttft_p99_s=1.0, itl_p99_s=0.1),))


def _replay(step_s: float) -> SavedReplay:
    times = TokenTimes(
        intended_s=np.array([0.0, 1.0]),
        sent_s=np.array([0.0, 1.0]),
        token_s=[np.array([1.0, 2.0, 3.0]) * step_s, 1.0 + np.array([2.0, 3.0]) * step_s],
        prompt_tokens=np.array([10, 20]),
        failed=np.zeros(2, dtype=np.bool_),
    )
    outcomes = outcomes_from_token_times(times, np.zeros(2, dtype=np.int64), SLO.itl_limit_s)
    return SavedReplay({"label": "x", "speed": 1.0}, outcomes, outcomes)


@pytest.fixture
def saved_replay() -> SavedReplay:
    return _replay(0.05)


def candidate(label: str, settings: dict[str, Any], step_s: float) -> Candidate:
    """A candidate whose every step took `step_s`."""
    metrics = compute(_replay(step_s).raw, SLO).to_dict()
    windows = (_replay(step_s * share).raw for share in (0.5, 2.0, 4.0))
    predicted = over_windows(_replay(step_s).raw, windows, SLO).to_dict()
    replays = [{"speed": 1.0, "fidelity": {"ok": True}, "engine_version": "1"}]
    resolved = {"max_num_batched_tokens": 2048, "enable_prefix_caching": True, **settings}
    return Candidate(label, settings, predicted, metrics, metrics, replays, resolved)


@pytest.fixture
def results() -> Results:
    return finished_by_hand()


def finished_by_hand() -> Results:
    """A finished run with two configurations."""
    default = candidate("default", {"max_model_len": 4096}, 0.2)
    settings = {
        "max_model_len": 4096,
        "max_num_batched_tokens": 512,
        "scheduler_reserve_full_isl": False,
    }
    best = candidate("candidate-1", settings, 0.05)
    points = [
        {
            "number": number,
            "settings": c.settings,
            "ttft_p99_s": c.predicted["ttft_p99_s"],
            "itl_p99_s": c.predicted["itl_p99_s"],
            "goodput_rps": c.predicted["goodput_rps"],
            "feasible": number == 1,
            "on_front": number == 1,
        }
        for number, c in enumerate((default, best))
        if c.predicted is not None
    ]
    return Results(
        study="small",
        verdict=Verdict.MET,
        meets_slo=True,
        misses={},
        default=default,
        recommended=best,
        candidates=[default, best],
        front=points,
        slo={"default": {"ttft_p99_s": 1.0, "itl_p99_s": 0.1}},
        trials=2,
        infeasible_trials=0,
        engine={
            "name": "vllm",
            "model": "/models/a model",
            "load_format": "dummy",
            "dtype": "float32",
            "device": "auto",
            "args": {"enforce_eager": True, "enable_prefix_caching": False},
            "environment": {"VLLM_CPU_KVCACHE_SPACE": "1"},
        },
        provenance={"trace_digest": "0123456789abcdef", "trace_source": "by hand"},
        evidence=Evidence.MEASURED,
    )
