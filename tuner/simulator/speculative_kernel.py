"""The event loop with speculative decoding: the same events as `kernel.py`, without lockstep.

It is compiled only when a configuration speculates.
"""

from __future__ import annotations

from profiler.compiled import compiled, inner
from profiler.latency.params import StepTimeParams
from profiler.latency.step_time import BatchShape, step_interval
from profiler.steps import AFTER_CHUNKS, AFTER_DECODES
from tuner.simulator.drafts import Drafts
from tuner.simulator.record import add_step, has_record_room, in_window, record_queues
from tuner.simulator.scheduler import current_threshold
from tuner.simulator.speculative import schedule_drafts
from tuner.simulator.speculative_admission import admit_drafts
from tuner.simulator.state import (
    ALL_DONE,
    ENDLESS,
    FOLLOWS,
    FRUITLESS,
    LAST_END,
    LOG_FULL,
    NUM_FINISHED,
    NUM_GAPS,
    NUM_RUNNING,
    NUM_STEPS,
    RECORDING,
    SCHEDULE_AT,
    STUCK,
    VISIBLE,
    FloatArray,
    Limits,
    State,
)
from tuner.simulator.verify import describe_drafts, launch, see_output
from tuner.simulator.waiting import see_arrivals


@inner
def wait_for_output(state: State, drafts: Drafts, limits: Limits, preempted: bool) -> bool:
    """Nothing was scheduled: move to the output in flight, else to the next arrival.

    Returns False when there is neither.
    """
    counts, times, visible_s = state.tally.counts, state.tally.times, state.requests.visible_s
    last = (counts[NUM_STEPS] + 1) % 2
    if drafts.sizes[last] > 0:
        see_output(state, drafts, limits, last)
        times[SCHEDULE_AT] = max(times[SCHEDULE_AT], times[LAST_END])
        return True
    if preempted:
        return True
    if counts[VISIBLE] == visible_s.size:
        return False
    times[SCHEDULE_AT] = max(times[SCHEDULE_AT], visible_s[counts[VISIBLE]])
    return True


@inner
def run_drafts(
    state: State, drafts: Drafts, limits: Limits, batch: BatchShape, seconds: float
) -> None:
    """The scheduled batch runs for `seconds`; an output is seen: this step's, or under
    asynchronous scheduling that of the step before."""
    counts, times = state.tally.counts, state.tally.times
    slot = counts[NUM_STEPS] % 2
    start = max(times[LAST_END], times[SCHEDULE_AT])
    times[LAST_END] = start + seconds
    if limits.timeline:
        add_step(state, batch, start, times[LAST_END])
    launch(state, drafts, limits)
    drafts.ends[slot] = times[LAST_END]
    if limits.overlapped:
        see_output(state, drafts, limits, 1 - slot)
        times[SCHEDULE_AT] = start
    else:
        see_output(state, drafts, limits, slot)
        times[SCHEDULE_AT] = times[LAST_END]
    if counts[RECORDING] == 1 and limits.record_queues:
        record_queues(state, limits)
    counts[NUM_STEPS] += 1
    counts[FOLLOWS] = AFTER_CHUNKS if batch.prefill_tokens > 0 else AFTER_DECODES


@compiled
def run_speculative(
    state: State, drafts: Drafts, limits: Limits, params: StepTimeParams, jitter: FloatArray
) -> int:
    """Run until every request is finished. Returns a status; LOG_FULL may be called again."""
    counts = state.tally.counts
    while counts[NUM_FINISHED] < state.requests.visible_s.size:
        counts[RECORDING] = 1 if in_window(state, limits) else 0
        full = counts[NUM_GAPS] + 1 + limits.max_active >= state.log.gap_s.size
        if full or not has_record_room(state, limits):
            return LOG_FULL
        see_arrivals(state, limits, state.tally.times[SCHEDULE_AT])
        threshold = current_threshold(state, limits)
        preempted = schedule_drafts(state, drafts, limits, threshold) > 0
        if not preempted:
            admit_drafts(state, drafts, limits, threshold)
        if counts[FRUITLESS] > 1000 + 100 * limits.max_active:
            return ENDLESS
        batch = describe_drafts(state)
        if batch.prefill_tokens + batch.num_decodes == 0:
            if not wait_for_output(state, drafts, limits, preempted):
                return STUCK
            continue
        seconds = step_interval(params, batch, counts[NUM_RUNNING], limits.overlapped)
        seconds *= jitter[counts[NUM_STEPS] % jitter.size]
        run_drafts(state, drafts, limits, batch, seconds)
    return ALL_DONE
