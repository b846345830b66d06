"""`profile`: drive an engine through designed batch shapes and a slice of the user's trace."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from profiler.collect.artefact import Profile
from profiler.collect.design import episodes, limits_of
from profiler.collect.sentinel import PROMPT_TOKENS, noise, reference_s, spread
from profiler.collect.session import Session
from profiler.engines.base import Engine, Progress
from profiler.errors import InputError
from profiler.latency.base import StepTimeModel
from profiler.latency.fit import NUM_FOLDS, fit_step_time, rows_of, usable_steps
from profiler.latency.report import HeldOutReport, held_out_report
from profiler.latency.roofline import Structure, fold_of, held_out_score
from profiler.provenance import provenance_now
from profiler.replay import Replay, replay
from profiler.traffic.trace import Trace

LEAST_BUDGET_S = 10.0
_DESIGN_SHARE = 0.75
"""of the budget for designed shapes; the rest replays the user's trace"""
_LEAST_ROUNDS = 6
_FALLING = 0.98
"""a round helps when it brings the held-out error below this share of the best before"""
_PATIENCE = 3
"""rounds without help after which sampling stops"""
_REPLAY_LOAD = 0.7
"""part of the replay's time that its prompts alone may take, so that it ends in time"""


def profile(
    engine: Engine,
    trace: Trace,
    *,
    budget_s: float,
    seed: int,
    progress: Progress | None = None,
) -> Profile:
    """Measure a started, idle engine and fit its step-latency model.

    Parameters
    ----------
    engine
        Ready for `replay`; its recorded steps so far are dropped.
    trace
        The user's traffic: it bounds the lengths that are sampled, and a slice of it is replayed
        at the engine's own configuration at the end.
    budget_s
        About how long to measure; the fit of some seconds comes on top.
    seed
        Of the shapes, their order, and the made-up prompts.
    progress
        Called with (tenths of a second measured, tenths of a second in all).

    Raises
    ------
    InputError
        A budget below 10 s, or no request of the trace fits the engine's `max_model_len`.
    EngineError
        The engine died, hung, or recorded nothing.
    LatencyModelError
        Too few steps were seen for a fit.
    """
    if budget_s < LEAST_BUDGET_S:
        raise InputError(
            f"a profile needs a budget of at least {LEAST_BUDGET_S:g} s, got {budget_s:g} s; "
            "raise it"
        )
    served = _that_fit(trace, engine)
    session = Session(engine, budget_s, progress)
    session.read_sentinels()
    early = _sample_shapes(session, served, seed)
    session.read_sentinels()
    seen = _replay_slice(session, served, seed)
    session.read_sentinels()
    if progress:
        progress(round(10 * budget_s), round(10 * budget_s))
    model, report = _fit(session, seed)
    facts = _facts(session, trace, seed)
    facts |= {"stopped_early": early, "replay_fidelity": asdict(seen.fidelity)}
    model = model.with_facts(**{k: facts[k] for k in _MODEL_FACTS})
    return Profile(session.samples(), model, seen.outcomes, facts, report)


def _that_fit(trace: Trace, engine: Engine) -> Trace:
    """The trace without requests that the engine would refuse as too long."""
    most = engine.facts.resolved.max_model_len or np.iinfo(np.int64).max
    keep = trace.prompt_tokens + trace.output_tokens <= most
    if not keep.any():
        raise InputError(
            f"no request of the trace fits max_model_len = {most}; raise max_model_len or cap the "
            "trace's lengths"
        )
    return _take(trace, keep)


def _take(trace: Trace, keep: np.ndarray[Any, np.dtype[np.bool_]]) -> Trace:
    """Requests of `trace`, without their prefixes: a profile makes its prompts up anyway."""
    classes = None if trace.request_class is None else trace.request_class[keep]
    return Trace(
        arrival_s=trace.arrival_s[keep] - trace.arrival_s[keep][0],
        prompt_tokens=trace.prompt_tokens[keep],
        output_tokens=trace.output_tokens[keep],
        priority=None if trace.priority is None else trace.priority[keep],
        request_class=classes,
        class_names=trace.class_names,
        source=trace.source,
    )


def _sample_shapes(session: Session, trace: Trace, seed: int) -> bool:
    """Run episodes until their part of the budget is used; True when stopped early because the
    held-out error no longer fell."""
    limits = limits_of(
        session.engine.facts,
        trace,
        prefill_token_s=_prefill_token_s(session),
        decode_s=float(np.median([r.decode_s for r in session.readings])),
    )
    end_s = session.start_s + _DESIGN_SHARE * session.budget_s
    best, idle_rounds = np.inf, 0
    for number, round_ in enumerate(episodes(limits, seed), start=1):
        for episode in round_:
            if session.now_s >= end_s:
                return False
            session.sentinel_if_due()
            session.run(episode.requests(seed + session.num_configurations))
        error = _quick_error(session, seed)
        idle_rounds = 0 if error < _FALLING * best else idle_rounds + 1
        best = min(best, error)
        if number >= _LEAST_ROUNDS and idle_rounds >= _PATIENCE:
            return True
    return False


def _quick_error(session: Session, seed: int) -> float:
    """Held-out error of the plain roofline on what is there so far; fast enough for each round."""
    rows = rows_of(usable_steps(session.samples()))
    with threadpool_limits(limits=1):  # the engine is waiting; see `fit.fit_params`
        return held_out_score(rows, Structure(), fold_of(rows.group, NUM_FOLDS, seed))


def _prefill_token_s(session: Session) -> float:
    return float(np.median([r.prefill_s for r in session.readings])) / PROMPT_TOKENS


def _replay_slice(session: Session, trace: Trace, seed: int) -> Replay:
    """Replay as much of the trace's beginning as ends within its part of the budget; at least one
    request."""
    left_s = min(session.left_s, (1.0 - _DESIGN_SHARE) * session.budget_s)
    work_s = np.cumsum(trace.prompt_tokens) * _prefill_token_s(session)
    keep = (trace.arrival_s <= _REPLAY_LOAD * left_s) & (work_s <= _REPLAY_LOAD * left_s)
    keep[0] = True
    seen = replay(session.engine, _take(trace, keep), seed=seed)
    session.keep_steps(seen.times)
    return seen


def _fit(session: Session, seed: int) -> tuple[StepTimeModel, HeldOutReport]:
    samples = session.samples()
    model = fit_step_time(samples, seed=seed).with_frontend(
        max(0.0, float(np.median([r.frontend_in_s for r in session.readings]))),
        max(0.0, float(np.median([r.frontend_out_s for r in session.readings]))),
    )
    report = held_out_report(samples, seed=seed, sentinel_spread=spread(session.readings))
    return model, report


_MODEL_FACTS = ("engine", "version", "device", "model", "trace_digest", "seed", "provenance")


def _facts(session: Session, trace: Trace, seed: int) -> dict[str, Any]:
    """Where the profile came from; see `Profile.facts`."""
    engine = session.engine.facts
    return {
        "engine": engine.engine,
        "version": engine.version,
        "device": engine.device,
        "model": engine.model,
        "model_shape": engine.model_shape,
        "resolved": engine.resolved.settings(),
        "num_kv_blocks": engine.num_kv_blocks,
        "block_size": engine.resolved.block_size,
        "host": engine.host,
        "trace_digest": trace.digest(),
        "trace_source": trace.source,
        "seed": seed,
        "budget_s": session.budget_s,
        "elapsed_s": session.elapsed_s,
        "num_configurations": session.num_configurations,
        "sentinel_reference_s": reference_s(session.readings),
        "sentinel_spread": spread(session.readings),
        "sentinel_noise": noise(session.readings),
        "num_sentinels": len(session.readings),
        "provenance": provenance_now().to_dict(),
    }
