"""The best few and the engine default on the real engine, in alternating rounds.

Machines drift: the same batch took 20 to 30 % longer minutes later on shared hosts. So candidates
alternate (A B C, C B A, ...), each replay is bracketed by the profile's sentinel batch, and
metrics are given twice: as measured, and *corrected* to the speed the profile was normalised to.
With speed = sentinel reference / sentinel around the replay, every time since a request's intended
arrival is multiplied by the speed, TTFT and gaps alike. That is first order: it undoes the length
of the steps, but not the longer queues that longer steps build up near saturation.

A rehearsed engine (`profiler.engines.rehearsal`) does not feel the machine's speed: its steps take
the latency model's time, or the replay is refused. Its speed is 1 by construction, and its front
end is this machine's, so predictions take its delays: inward as timed just before the replay,
outward as the replay's own mean, for it grows with the number of streams.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from profiler.collect import delivery_s, inward_s, run_sentinel
from profiler.engine_config import EngineConfig
from profiler.engines.base import Engine
from profiler.engines.rehearsal import REHEARSAL
from profiler.latency.base import StepTimeModel
from profiler.outcomes import Outcomes, TokenTimes, outcomes_from_token_times
from profiler.replay import DEFAULT_MAX_LATE_S, Replay, replay
from profiler.traffic.trace import Trace
from tuner.candidate import Candidate
from tuner.metrics import Metrics, compute, pool
from tuner.results import RunFolder
from tuner.saved_replay import SavedReplay
from tuner.search.objective import not_sampled
from tuner.search.progress import Ui
from tuner.search.rounds import (
    Engines,
    Predictions,
    Rounds,
    key_of,
    replay_facts,
    with_evidence,
)
from tuner.simulator import simulate
from tuner.slo import Slo

LATE_SHARE = 0.05


@dataclass(frozen=True)
class Plan:
    """What to replay on what."""

    configs: dict[str, EngineConfig]
    """label -> settings that are not left to the engine; the first is the engine default"""
    trace: Trace
    """exactly the requests to replay"""
    slo: Slo
    model: StepTimeModel
    reference_s: float
    """sentinel time of the profile, seconds"""
    rounds: int
    seed: int
    windows: int = 1
    """arrival windows that a prediction is made over"""
    acceptance: float | tuple[float, ...] | None = None
    """of draft tokens, as `simulate` takes it"""


def confirm(
    plan: Plan, folder: RunFolder, alive: Engines[EngineConfig, Engine], ui: Ui
) -> list[Candidate]:
    """Measure every candidate of `plan`; replays that `folder` already holds are not repeated.

    A candidate whose engine does not start, or none of whose replays kept up with its send times,
    is reported as failed; for the default that ends the run (`EngineStartError`,
    `EvidenceError`). Raises `EngineError` when an engine dies or hangs. What was measured until
    then stays in `folder`.
    """
    rounds = Rounds(
        {label: replay_key(c, plan.trace) for label, c in plan.configs.items()}, plan.rounds
    )
    failures = rounds.run(folder, lambda label, n: _measure(plan, label, n, alive, ui), ui)
    found = [
        _summary(plan, label, rounds.kept(folder, label), failures.get(label))
        for label in plan.configs
    ]
    if found[0].measured is None:
        raise failures[found[0].label]
    return found


def replay_key(config: EngineConfig, trace: Trace) -> str:
    """Name of the replays of `trace` with `config` in the run folder."""
    return key_of(config.settings(), trace.digest())


def _measure(
    plan: Plan, label: str, round_: int, alive: Engines[EngineConfig, Engine], ui: Ui
) -> SavedReplay:
    """One replay between two sentinels; of a rehearsed engine, with its front end timed."""
    engine = alive.get(label, plan.configs[label])
    if engine.facts.engine == REHEARSAL:
        inward = inward_s(engine)
        seen = _replay(plan, label, round_, engine, ui)
        gauge: dict[str, Any] = {
            "frontend_s": [inward, delivery_s(seen.times, engine.take_steps())]
        }
        speed = 1.0
    else:
        before = run_sentinel(engine)
        seen = _replay(plan, label, round_, engine, ui)
        after = run_sentinel(engine)
        speed = plan.reference_s / ((before + after) / 2)
        gauge = {"sentinel_before_s": before, "sentinel_after_s": after}
    facts = {
        "label": label,
        "settings": plan.configs[label].settings(),
        "speed": speed,
        **gauge,
        "fidelity": asdict(seen.fidelity),
        "resolved": engine.facts.resolved.settings(),
        "num_kv_blocks": engine.facts.num_kv_blocks,
        "engine_version": engine.facts.version,
    }
    corrected = outcomes_from_token_times(
        at_speed(seen.times, speed), plan.trace.classes, plan.slo.itl_limit_s
    )
    return SavedReplay(facts, seen.outcomes, corrected)


def _replay(plan: Plan, label: str, round_: int, engine: Engine, ui: Ui) -> Replay:
    """One replay that kept up with its send times. Raises `EvidenceError` when none does."""

    def play() -> Replay:
        with ui.progress(f"round {round_ + 1}/{plan.rounds}: {label}") as progress:
            return replay(
                engine,
                plan.trace,
                itl_limit_s=plan.slo.itl_limit_s,
                seed=plan.seed + round_,  # other prompts, or a prefix cache would answer
                progress=progress,
                max_late_s=latest_send_s(plan.slo),
            )

    return with_evidence(play, Replay.require_evidence, label, ui)


def latest_send_s(slo: Slo) -> float:
    """How late a request may be sent in a replay that counts: 5 % of the tightest TTFT limit, and
    never less than the default. TTFT is timed from the intended arrival, so lateness is in it."""
    limits = [x.ttft_p99_s for x in slo.limits if not math.isnan(x.ttft_p99_s)]
    return max(DEFAULT_MAX_LATE_S, LATE_SHARE * min(limits, default=0.0))


def at_speed(times: TokenTimes, speed: float) -> TokenTimes:
    """What the client would have seen at the reference speed, to first order (see above)."""
    tokens = [
        intended + (t - intended) * speed
        for intended, t in zip(times.intended_s, times.token_s, strict=True)
    ]
    return replace(times, token_s=tokens)


def _summary(
    plan: Plan, label: str, saved: list[SavedReplay], failure: Exception | None
) -> Candidate:
    """Measured, corrected and predicted figures of one candidate."""
    settings = plan.configs[label].settings()
    if not saved:
        return Candidate(label, settings, None, None, None, [], {}, failure=str(failure))
    facts = saved[0].facts
    resolved = EngineConfig.from_settings(facts["resolved"])
    return Candidate(
        label=label,
        settings=settings,
        predicted=_predict(plan, facts).to_dict(),
        measured=compute(pool([s.raw for s in saved]), plan.slo).to_dict(),
        corrected=compute(pool([s.corrected for s in saved]), plan.slo).to_dict(),
        replays=replay_facts(saved),
        resolved=facts["resolved"],
        not_sampled=not_sampled(plan.model, resolved, plan.trace),
    )


def _predict(plan: Plan, facts: dict[str, Any]) -> Metrics:
    """Predicted metrics of the replayed requests."""
    predictions = Predictions(plan.trace, plan.slo, plan.rounds, plan.windows, plan.seed)
    return predictions.metrics(lambda trace, seed: as_replayed(plan, facts, trace, seed))


def as_replayed(plan: Plan, facts: Mapping[str, Any], trace: Trace, seed: int) -> Outcomes:
    """`trace` simulated as the replay with these `SavedReplay.facts` ran: with the settings that
    the engine resolved, its KV blocks, and a rehearsed one's front end."""
    rehearsed = facts.get("frontend_s")
    model = plan.model.with_frontend(*rehearsed) if rehearsed else plan.model
    return simulate(
        trace,
        EngineConfig.from_settings(facts["resolved"]),
        model,
        num_kv_blocks=facts["num_kv_blocks"],
        itl_limit_s=plan.slo.itl_limit_s,
        seed=seed,
        acceptance=plan.acceptance,
    ).outcomes
