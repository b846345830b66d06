"""`profile_silicon`: a profile like any other, from published measurements instead of an engine."""

from __future__ import annotations

from typing import Any

import numpy as np

from profiler.collect.artefact import Profile
from profiler.engine_config import EngineConfig
from profiler.engines.base import Progress
from profiler.engines.silicon.build import Silicon, build_silicon
from profiler.engines.silicon.spec import SiliconSpec
from profiler.errors import StudyError
from profiler.hardware import this_machine
from profiler.latency.base import StepTimeModel
from profiler.latency.calibrate import calibrate
from profiler.latency.report import HeldOutReport, limits_of, region_errors
from profiler.latency.roofline import relative_errors
from profiler.outcomes import Outcomes
from profiler.provenance import provenance_now
from profiler.steps import StepSamples


def profile_silicon(
    spec: SiliconSpec,
    config: EngineConfig | None = None,
    *,
    measured: Profile | None = None,
    progress: Progress | None = None,
) -> Profile:
    """Predict step times and KV capacity of `spec`.

    The profile's steps are the published ones: GPU time alone. Its report holds the tabulation
    error: the tables without further terms against their source at random shapes.

    Parameters
    ----------
    config
        Settings that are not left to the engine.
    measured
        A profile of the real GPU that the latency model is corrected with.
    progress
        Called with (parts done, parts in all).

    Raises
    ------
    MissingExtraError, SiliconError, ModelFolderError, KnobError
        As `build_silicon`.
    LatencyModelError
        `measured` has too few steps.
    StudyError
        `measured` is of another engine.
    """
    if measured is not None:
        require_measured(measured, spec)
    silicon = build_silicon(spec, config, progress=progress)
    steps = silicon.published_steps()
    model, facts = silicon.model, _facts(silicon)
    if measured is not None:
        model, done = _corrected(model, measured)
        facts["calibration"] = done
    model = model.with_facts(**{k: facts[k] for k in _MODEL_FACTS})
    return Profile(steps, model, no_outcomes(), facts, tabulation_report(silicon, steps))


_MODEL_FACTS = ("resolved", "num_kv_blocks", "kv_blocks_by_budget", "provenance")


def require_measured(measured: Profile, spec: SiliconSpec) -> None:
    """Raise `StudyError` when a profile cannot calibrate `spec`."""
    if is_predicted(measured.facts):
        raise StudyError(
            "calibrate: that profile was itself made from published measurements; give one that "
            "was measured on the GPU"
        )
    if measured.facts["engine"] != spec.engine:
        raise StudyError(
            f"calibrate: the measured profile is of engine {measured.facts['engine']}, not "
            f"{spec.engine}; profile the GPU with {spec.engine}"
        )


def is_predicted(facts: dict[str, Any]) -> bool:
    """Whether a profile with these facts was made without an engine."""
    return "silicon" in facts


def _corrected(model: StepTimeModel, measured: Profile) -> tuple[StepTimeModel, dict[str, Any]]:
    """The calibrated model, with the front-end delays of the measured one, and what it did."""
    model, calibration = calibrate(model, measured.samples)
    ends = measured.model.frontend_in_s, measured.model.frontend_out_s
    source = {k: measured.facts.get(k) for k in ("device", "model", "version", "trace_digest")}
    return model.with_frontend(*ends), {**calibration.to_dict(), "measured": source}


def tabulation_report(silicon: Silicon, steps: StepSamples) -> HeldOutReport:
    """Error of the tables, without further terms, against what the source gives for `steps`."""
    errors = relative_errors(silicon.kernel_model.device_s(steps), steps.exec_s)
    return HeldOutReport(
        rows=tuple(region_errors(steps, errors)),
        not_sampled=limits_of(steps),
        reference=f"{silicon.facts['silicon']['package']} at {steps.num_steps:,} random shapes",
    )


def no_outcomes() -> Outcomes:
    """Nothing was replayed."""
    seconds, counts = np.empty(0), np.empty(0, dtype=np.int64)
    return Outcomes(
        arrival_s=seconds,
        first_token_s=seconds,
        finish_s=seconds,
        prompt_tokens=counts,
        output_tokens=counts,
        status=counts,
        request_class=counts,
        num_slow_gaps=counts,
        itl_limit_s=np.full(1, np.nan),
        gap_s=seconds,
        gap_weight=np.empty((0, 1), dtype=np.int64),
    )


def _facts(silicon: Silicon) -> dict[str, Any]:
    """As `Profile.facts`; a sentinel, a trace and a budget it has none."""
    return {
        **silicon.facts,
        "resolved": silicon.resolved.settings(),
        "num_kv_blocks": silicon.num_kv_blocks,
        "kv_blocks_by_budget": [list(pair) for pair in silicon.kv_blocks_by_budget],
        "block_size": silicon.resolved.block_size,
        "host": this_machine().to_dict(),
        "provenance": provenance_now().to_dict(),
    }
