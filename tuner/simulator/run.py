"""The Python boundary of the simulator: check, cast, allocate, call, decode the status."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from profiler.engine_config import EngineConfig
from profiler.errors import SimulationError
from profiler.latency.base import StepTimeModel
from profiler.latency.params import plain_params
from profiler.outcomes import Outcomes, Status
from profiler.traffic.trace import Trace
from tuner.simulator.acceptance import AcceptanceInput, build_acceptance, build_drafts
from tuner.simulator.build import (
    admissible,
    build_limits,
    build_requests,
    draw_jitter,
    resolved,
)
from tuner.simulator.drafts import ACCEPTED, DRAFTED, Drafts
from tuner.simulator.gap_store import GapStore
from tuner.simulator.kernel import run_all
from tuner.simulator.memory import allocate
from tuner.simulator.prefix_keys import build_prefixes, prefix_blocks
from tuner.simulator.speculative_kernel import run_speculative
from tuner.simulator.state import (
    BLOCKS_MATTER,
    CACHED_TOKENS,
    ENDLESS,
    LOG_FULL,
    NUM_PREEMPTIONS,
    NUM_ROWS,
    NUM_STEPS,
    STUCK,
    FloatArray,
    IntArray,
    Limits,
    Requests,
    State,
)


@dataclass(frozen=True)
class StepRecord:
    """What every step did; rows in order of time, then in the engine's order."""

    step: IntArray
    """(rows,) number of the busy step"""
    request: IntArray
    """(rows,) index into the trace"""
    tokens: IntArray
    """(rows,) tokens scheduled; -1 marks a preemption. After the step, -2 marks every running and
    -3 every waiting request, in the order of their queues (a heap under priorities)"""
    before: IntArray
    """(rows,) tokens computed before"""
    free: IntArray
    """(rows,) free KV blocks after scheduling"""


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
    each other for ever. The simulation stopped there; the others' status is UNFINISHED"""
    simulation_s: float
    """seconds inside the kernel"""
    num_drafts: int = 0
    """draft tokens that were verified"""
    num_accepted: int = 0
    """of them, those that were accepted"""
    record: StepRecord | None = None
    """filled when asked for"""


def simulate(  # noqa: PLR0913  (keyword-only options)
    trace: Trace,
    config: EngineConfig,
    model: StepTimeModel,
    *,
    num_kv_blocks: int,
    itl_limit_s: FloatArray | None = None,
    acceptance: AcceptanceInput | None = None,
    seed: int | None = 0,
    record: bool = False,
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
    acceptance
        With `config.num_speculative_tokens` = K above 0: the chance that a draft token is accepted,
        or the (K + 1,) chances of 0 .. K accepted drafts per step; None takes the rates that the
        trace carries. Every decode step verifies K drafts, as far as budget and model length allow,
        and processes 1 + K tokens of one context; the drafter's own time is not added. Tokens that
        are accepted in one step appear together, so that pooled ITL holds gaps of 0 s, as it does
        for a client that takes the time of every token.
    seed
        Draws the measured jitter of step times (None leaves it out) and the accepted drafts.
    record
        Also return what every step did (slow; for tests and timelines).

    Raises
    ------
    KnobError
        `config` is incomplete or clashes.
    SimulationError
        The traffic holds nothing to simulate, or the run cannot make progress.
    """
    limits = build_limits(config, num_kv_blocks, trace.prefix_block_tokens or 1)
    prepare(limits.num_drafts > 0)
    sharing = limits.caching and bool(prefix_blocks(trace).shared.any())
    limits = limits._replace(recording=record, identities=sharing or limits.num_drafts > 0)
    if itl_limit_s is None:
        itl_limit_s = np.full(len(trace.class_names), np.nan)
    accepted = admissible(trace, config, num_kv_blocks)
    length = resolved(config, "max_model_len")
    requests = build_requests(trace, accepted, limits, model.frontend_in_s, length)
    jitter = draw_jitter(model.residuals, seed)
    drafts: Drafts | None = None
    if limits.num_drafts > 0:
        luck = build_acceptance(trace, limits.num_drafts, acceptance, seed)
        drafts = build_drafts(luck, accepted, limits, itl_limit_s.size)
    status, spent = BLOCKS_MATTER, 0.0
    while status == BLOCKS_MATTER:
        prefixes = build_prefixes(trace, accepted, requests, limits)
        state = allocate(requests, prefixes, limits, num_kv_blocks, itl_limit_s)
        run = kernel_call(limits, model, jitter, drafts)
        started = time.perf_counter()
        gaps = GapStore(itl_limit_s.size)
        state, status = run_to_end(state, run, gaps)
        spent += time.perf_counter() - started
        limits = limits._replace(identities=True)
    if status == STUCK:
        raise SimulationError(
            "the simulated engine cannot go on: requests wait and nothing runs; "
            f"this is a defect of the simulator, please report it with {config}"
        )
    counts = state.tally.counts
    return Simulation(
        outcomes=gather(trace, accepted, state, gaps, model.frontend_out_s),
        num_steps=int(counts[NUM_STEPS]),
        num_preemptions=int(counts[NUM_PREEMPTIONS]),
        cached_tokens=int(counts[CACHED_TOKENS]),
        endless=status == ENDLESS,
        simulation_s=spent,
        num_drafts=0 if drafts is None else int(drafts.totals[DRAFTED]),
        num_accepted=0 if drafts is None else int(drafts.totals[ACCEPTED]),
        record=gather_record(accepted, state) if record else None,
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


def prepare(speculative: bool = False) -> None:
    """Compile the kernels, or load them from the disk cache.

    `simulate` does it by itself; call it before forking workers, or to show the wait of a first
    compile apart.

    Parameters
    ----------
    speculative
        The kernel for configurations with draft tokens, instead of the one for those without.
    """
    if speculative in _PREPARED:
        return
    none = np.empty(0, dtype=np.int64)
    config = EngineConfig(
        max_num_batched_tokens=2,
        max_num_seqs=1,
        block_size=1,
        num_speculative_tokens=1 if speculative else 0,
    )
    limits = build_limits(config, 2)
    requests = Requests(np.empty(0), none, none, none, none)
    no_trace, nobody = Trace(np.empty(0), none, none), np.zeros(0, dtype=np.bool_)
    prefixes = build_prefixes(no_trace, nobody, requests, limits)
    state = allocate(requests, prefixes, limits, 2, np.full(1, np.nan))
    if speculative:
        drafts = build_drafts(build_acceptance(no_trace, 1, 0.0, 0), nobody, limits, 1)
        run_speculative(state, drafts, limits, plain_params(), np.ones(1))
    else:
        run_all(state, limits, plain_params(), np.ones(1))
    GapStore(1).drain(state)
    _PREPARED.add(speculative)


_PREPARED: set[bool] = set()
"""which kernels are loaded"""


def gather(
    trace: Trace,
    accepted: npt.NDArray[np.bool_],
    state: State,
    gaps: GapStore,
    frontend_out_s: float,
) -> Outcomes:
    """Outcomes of all requests of `trace`, the rejected ones included."""
    n, progress = trace.arrival_s.size, state.progress
    first, finish = np.full(n, np.nan), np.full(n, np.nan)
    first[accepted] = progress.first_token_s + frontend_out_s
    finish[accepted] = progress.finish_s + frontend_out_s
    output, slow = np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64)
    ended = ~np.isnan(progress.finish_s)
    status = np.full(n, Status.REJECTED, dtype=np.int64)
    status[accepted] = np.where(ended, Status.FINISHED, Status.UNFINISHED)
    output[accepted] = np.where(ended, state.requests.max_output, progress.outputs)
    slow[accepted] = progress.num_slow
    gap_s, gap_weight = gaps.take(state)
    return Outcomes(
        arrival_s=trace.arrival_s,
        first_token_s=first,
        finish_s=finish,
        prompt_tokens=trace.prompt_tokens,
        output_tokens=output,
        status=status,
        request_class=trace.classes,
        num_slow_gaps=slow,
        itl_limit_s=state.tally.itl_limit_s,
        gap_s=gap_s,
        gap_weight=gap_weight,
    )


def gather_record(accepted: npt.NDArray[np.bool_], state: State) -> StepRecord:
    """The step record with request numbers of the trace."""
    rows, record = int(state.tally.counts[NUM_ROWS]), state.record
    original = np.flatnonzero(accepted)
    return StepRecord(
        step=record.step[:rows].copy(),
        request=original[record.request[:rows]],
        tokens=record.tokens[:rows].copy(),
        before=record.before[:rows].copy(),
        free=record.free[:rows].copy(),
    )
