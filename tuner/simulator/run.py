"""The Python boundary of the simulator: check, cast, allocate, call, decode the status."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from profiler.engine_config import EngineConfig
from profiler.errors import SimulationError
from profiler.latency.base import StepTimeModel
from profiler.outcomes import Outcomes, Status
from profiler.traffic.trace import Trace
from tuner.simulator.acceptance import AcceptanceInput, build_acceptance, build_drafts
from tuner.simulator.build import (
    admissible,
    build_limits,
    build_requests,
    close_loop,
    draw_jitter,
    resolved,
)
from tuner.simulator.compilation import prepare
from tuner.simulator.drafts import ACCEPTED, DRAFTED, Drafts
from tuner.simulator.gap_store import GapStore
from tuner.simulator.image_build import (
    EncoderSize,
    EncoderUse,
    build_vision,
    encoder_size,
    encoder_use,
    fold_images,
)
from tuner.simulator.kernel import run_all
from tuner.simulator.memory import Inputs, allocate
from tuner.simulator.prefix_keys import build_prefixes, prefix_blocks
from tuner.simulator.speculative_kernel import run_speculative
from tuner.simulator.state import (
    BLOCKS_MATTER,
    CACHED_TOKENS,
    ENDLESS,
    LOG_FULL,
    NUM_PREEMPTIONS,
    NUM_STEPS,
    STUCK,
    FloatArray,
    Limits,
    State,
)
from tuner.simulator.timeline import (
    OwnGap,
    StepRecord,
    Timeline,
    gather_own_gap,
    gather_record,
    gather_timeline,
    record_limits,
    spread,
)


@dataclass(frozen=True)
class Simulation:
    """Result of one simulation."""

    outcomes: Outcomes
    num_steps: int
    num_preemptions: int
    cached_tokens: int
    """prompt tokens that were in the prefix cache when their requests were first admitted"""
    endless: bool
    """the engine itself would hang: requests with equal rights in a pool that is too small preempt
    each other for ever, or prompts with images back to back wait for room in the encoder's cache
    that they hold themselves, because the drafter reads on. The simulation stopped there; the
    others' status is UNFINISHED"""
    simulation_s: float
    """seconds inside the kernel"""
    admitted_s: FloatArray
    """(N,) schedule() call that admitted each request first, seconds; NaN for none"""
    worst_own_gap: OwnGap | None
    """longest gap of a request that was preempted or left out of a step, None when none was; with
    drafts, the longest gap of all"""
    encoder: EncoderUse
    num_drafts: int = 0
    """draft tokens that were verified"""
    num_accepted: int = 0
    """of them, those that were accepted"""
    record: StepRecord | None = None
    """filled when asked for"""
    timeline: Timeline | None = None
    """filled when asked for"""


def simulate(  # noqa: PLR0913  (keyword-only options)
    trace: Trace,
    config: EngineConfig,
    model: StepTimeModel,
    *,
    num_kv_blocks: int,
    itl_limit_s: FloatArray | None = None,
    seed: int | None = 0,
    record: bool | tuple[float, float] = False,
    timeline: bool = False,
    concurrency: int | None = None,
    encoder: EncoderSize | None = None,
    acceptance: AcceptanceInput | None = None,
) -> Simulation:
    """Replay `trace` through an exact copy of vLLM 0.32's scheduler under `config`.

    Parameters
    ----------
    trace
        Traffic; N requests.
    config
        Fully resolved settings (a chosen configuration over the engine's own defaults).
    model
        Step-latency model.
    num_kv_blocks
        KV blocks of the engine, the null block included; one less is usable.
    itl_limit_s
        (C,) ITL limit of each class, seconds, for `Outcomes.num_slow_gaps`; NaN for none.
    seed
        Draws the measured jitter of step times (None leaves it out) and the accepted drafts.
    record
        Also return who got what in every step, and the queues (slow); or, for a window of simulated
        seconds [start, end), who got what in the steps scheduled in it, the rest at full speed.
    timeline
        Also return one row for every step (72 bytes each; costs little).
    concurrency
        Closed loop, as benchmark clients with a fixed concurrency send: that many requests at
        0, then the next one of the trace whenever one is answered. None is the open loop, in which
        every request is sent at its own arrival.
    encoder
        Of a multimodal model; None for what vLLM 0.32 takes when no item of the model is larger
        than the largest image of `trace` (see `encoder_size`).
    acceptance
        With `config.num_speculative_tokens` = K above 0: the chance that a draft token is accepted,
        or the (K + 1,) chances of 0 .. K accepted drafts per step; None takes the rates that the
        trace carries. Every decode step verifies K drafts, as far as budget and model length allow,
        and processes 1 + K tokens of one context; the drafter's own time is not added. Tokens that
        are accepted in one step appear together, so that pooled ITL holds gaps of 0 s, as it does
        for a client that takes the time of every token.

    Raises
    ------
    KnobError
        `config` is incomplete or clashes.
    SimulationError
        The traffic holds nothing to simulate, or the run cannot make progress.
    """
    keyed = fold_images(trace, resolved(config, "block_size"))
    limits = build_limits(config, num_kv_blocks, keyed.prefix_block_tokens or 1)
    encoder = encoder_size(limits, trace, encoder)
    prepare(limits.num_drafts > 0)
    limits = with_traffic(limits, keyed, encoder)._replace(
        timeline=timeline,
        **record_limits(record),
        closed_loop=concurrency is not None,
        turnaround_s=model.frontend_in_s + model.frontend_out_s,
    )
    if itl_limit_s is None:
        itl_limit_s = np.full(len(trace.class_names), np.nan)
    accepted = admissible(trace, config, num_kv_blocks)
    length = resolved(config, "max_model_len")
    requests = build_requests(trace, accepted, limits, model.frontend_in_s, length)
    if concurrency is not None:
        require_all(accepted)
    jitter = draw_jitter(model.residuals, seed)
    drafts = None
    if limits.num_drafts:
        luck = build_acceptance(trace, limits.num_drafts, acceptance, seed)
        drafts = build_drafts(luck, accepted, limits, itl_limit_s.size)
    status, spent = BLOCKS_MATTER, 0.0
    while status == BLOCKS_MATTER:
        prefixes = build_prefixes(keyed, accepted, requests, limits)
        if concurrency is not None:
            close_loop(requests, concurrency)
        inputs = Inputs(requests, prefixes, build_vision(trace, accepted, encoder))
        state = allocate(inputs, limits, num_kv_blocks, itl_limit_s)
        run = kernel_call(limits, model, jitter, drafts)
        started = time.perf_counter()
        gaps = GapStore(itl_limit_s.size)
        state, status = run_to_end(state, run, gaps)
        spent += time.perf_counter() - started
        limits = limits._replace(identities=True)
    if status == STUCK:
        require_hang(limits, config)
    outcomes = gather(trace, accepted, state, gaps, model.frontend_out_s)
    if concurrency is not None:
        sent_s = state.requests.visible_s - model.frontend_in_s
        outcomes = dataclasses.replace(outcomes, arrival_s=sent_s)
    counts = state.tally.counts
    return Simulation(
        outcomes=outcomes,
        num_steps=int(counts[NUM_STEPS]),
        num_preemptions=int(counts[NUM_PREEMPTIONS]),
        cached_tokens=int(counts[CACHED_TOKENS]),
        endless=status in (STUCK, ENDLESS),
        simulation_s=spent,
        admitted_s=spread(state.progress.admitted_s, accepted),
        worst_own_gap=gather_own_gap(accepted, state),
        encoder=encoder_use(state.vision),
        num_drafts=0 if drafts is None else int(drafts.totals[DRAFTED]),
        num_accepted=0 if drafts is None else int(drafts.totals[ACCEPTED]),
        record=gather_record(accepted, state) if record else None,
        timeline=gather_timeline(state) if timeline else None,
    )


def with_traffic(limits: Limits, keyed: Trace, encoder: EncoderSize | None) -> Limits:
    """`limits` with what the traffic asks for: images, and blocks with identities."""
    shared = limits.caching and bool(prefix_blocks(keyed).shared.any())
    return limits._replace(
        images=encoder is not None,
        encoder_budget=encoder.budget_tokens if encoder else 0,
        identities=shared or limits.num_drafts > 0,
    )


def require_all(accepted: npt.NDArray[np.bool_]) -> None:
    """Raise `SimulationError` when the engine refuses a request of a closed loop."""
    if not accepted.all():
        raise SimulationError(
            f"{int((~accepted).sum())} requests are longer than max_model_len or than the KV "
            "pool; a closed loop takes only traffic that the engine accepts, cut it first"
        )


def require_hang(limits: Limits, config: EngineConfig) -> None:
    """Raise `SimulationError` where nothing can go on although the engine itself would not hang; it
    does when its drafter reads on into an image."""
    if not (limits.images and limits.reads_ahead > 0):
        raise SimulationError(
            "the simulated engine cannot go on: requests wait and nothing runs; "
            f"this is a defect of the simulator, please report it with {config}"
        )


KernelCall = Callable[[State], int]
"""runs a state until it is done or its log is full; returns the status"""


def kernel_call(
    limits: Limits, model: StepTimeModel, jitter: FloatArray, drafts: Drafts | None
) -> KernelCall:
    """The kernel for these limits: the one in lockstep, or the one with drafts."""
    if drafts is None:
        return lambda state: run_all(state, limits, model.params, jitter)
    return lambda state: run_speculative(state, drafts, limits, model.params, jitter)


def run_to_end(state: State, run: KernelCall, gaps: GapStore) -> tuple[State, int]:
    """Call the kernel until it has finished, giving its logs more room whenever they are full."""
    while True:
        status = run(state)
        if status != LOG_FULL:
            return state, status
        state = gaps.make_room(state)


def gather(
    trace: Trace,
    accepted: npt.NDArray[np.bool_],
    state: State,
    gaps: GapStore,
    frontend_out_s: float,
) -> Outcomes:
    """Outcomes of all requests of `trace`, the rejected ones included."""
    n, progress = trace.arrival_s.size, state.progress
    output, slow = np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64)
    ended = ~np.isnan(progress.finish_s)
    status = np.full(n, Status.REJECTED, dtype=np.int64)
    status[accepted] = np.where(ended, Status.FINISHED, Status.UNFINISHED)
    output[accepted] = np.where(ended, state.requests.max_output, progress.outputs)
    slow[accepted] = progress.num_slow
    gap_s, gap_weight = gaps.take(state)
    return Outcomes(
        arrival_s=trace.arrival_s,
        first_token_s=spread(progress.first_token_s + frontend_out_s, accepted),
        finish_s=spread(progress.finish_s + frontend_out_s, accepted),
        prompt_tokens=trace.prompt_tokens,
        output_tokens=output,
        status=status,
        request_class=trace.classes,
        num_slow_gaps=slow,
        itl_limit_s=state.tally.itl_limit_s,
        gap_s=gap_s,
        gap_weight=gap_weight,
    )
