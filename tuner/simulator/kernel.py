"""The event loop: schedule, run, commit. A step's time comes from the step-latency model.

Event order. A step is the only event; what falls on one instant is ordered as in the engine's
loop: the output of the step that ends then, then arrivals up to and including that instant, then
schedule(). Under asynchronous scheduling schedule() of step k+1 happens when step k starts.
"""

from __future__ import annotations

import numpy as np

from profiler.compiled import compiled, inner
from profiler.latency.params import StepTimeParams
from profiler.latency.step_time import BatchShape, step_interval
from profiler.steps import AFTER_CHUNKS, AFTER_DECODES
from tuner.simulator.commit import commit_chunks, commit_decodes, describe_batch, release_finished
from tuner.simulator.encoder_release import images_in_flight, images_rest, process_images
from tuner.simulator.gaps import has_log_room, log_pooled_gap
from tuner.simulator.quiet import run_quiet
from tuner.simulator.record import (
    add_step,
    has_record_room,
    in_window,
    record_queues,
    record_step,
    record_with_kv,
)
from tuner.simulator.remote import admit_any
from tuner.simulator.scheduler import admit_waiting, current_threshold, schedule_running
from tuner.simulator.starved import (
    exclude_returning,
    schedule_each,
    settle_returning,
    skip_step,
)
from tuner.simulator.state import (
    ALL_DONE,
    BLOCKS_MATTER,
    ENDING_BEFORE,
    ENDING_NOW,
    ENDLESS,
    FOLLOWS,
    FRUITLESS,
    LAST_END,
    LOG_FULL,
    NONE,
    NUM_FINISHED,
    NUM_LATE,
    NUM_RUNNING,
    NUM_STEPS,
    PART_HEAD,
    PAUSED,
    QUIET,
    RECORDING,
    SCHEDULE_AT,
    STUCK,
    VISIBLE,
    FloatArray,
    Limits,
    State,
)
from tuner.simulator.transfer_arrays import Transfers
from tuner.simulator.transfers import (
    defers_frees,
    next_transfer_s,
    note_empty_step,
    note_step,
    see_transfers,
    until_s,
    was_late,
)
from tuner.simulator.waiting import see_arrivals


@inner
def wait_for_work(
    state: State, limits: Limits, preempted: bool, transfers: Transfers | None
) -> bool:
    """Nothing was scheduled: move to the output in flight, else to the next arrival.

    Returns False when there is neither. A step can be empty because its only candidate preempted
    itself (priorities); then schedule() is called again as soon as the output in flight is seen.
    """
    counts, times, visible_s = state.tally.counts, state.tally.times, state.requests.visible_s
    in_flight = images_in_flight(state.vision, limits)
    if transfers is not None:
        note_empty_step(transfers, state)
        in_flight = times[LAST_END] > times[SCHEDULE_AT]
    if counts[NUM_LATE] > 0:
        skip_step(state)
    if counts[ENDING_BEFORE] != NONE or preempted or in_flight:
        process_images(state.vision, state, limits)
        release_finished(state, limits, ENDING_BEFORE, transfers)
        times[SCHEDULE_AT] = max(times[SCHEDULE_AT], times[LAST_END])
        return True
    next_s = visible_s[counts[VISIBLE]] if counts[VISIBLE] < visible_s.size else np.inf
    next_s = min(next_s, next_transfer_s(transfers))
    if next_s >= until_s(transfers):
        return False
    times[SCHEDULE_AT] = max(times[SCHEDULE_AT], next_s)
    return True


@inner
def schedule(state: State, limits: Limits, transfers: Transfers | None) -> bool:
    """One schedule() call. Returns whether it preempted."""
    see_arrivals(state, limits, state.tally.times[SCHEDULE_AT])
    if transfers is not None:
        see_transfers(transfers, state, limits)
    threshold = current_threshold(state, limits)
    left, preempted = 0, -1
    if not limits.may_starve and not limits.images and not was_late(transfers):
        left, preempted = schedule_running(state, limits, threshold, transfers)
    if preempted < 0:
        left, preempted = schedule_each(state, limits, threshold, transfers)
    if preempted == 0:
        if transfers is None:
            admit_waiting(state, limits, threshold, left)
        else:
            admit_any(transfers, state, limits, threshold, left)
    return preempted > 0


@inner
def run_batch(
    state: State, limits: Limits, batch: BatchShape, seconds: float, transfers: Transfers | None
) -> None:
    """The scheduled batch runs for `seconds`; tokens appear, requests join and end."""
    counts, times = state.tally.counts, state.tally.times
    start = max(times[LAST_END], times[SCHEDULE_AT])
    end = start + seconds
    if limits.timeline:
        add_step(state, batch, start, end)
    if counts[RECORDING] == 1:
        record_step(state)
    process_images(state.vision, state, limits)
    if transfers is not None:
        note_step(transfers, state, start, end)
    one_by_one = limits.may_starve or limits.images or defers_frees(transfers)
    if one_by_one:
        exclude_returning(state)
    log_pooled_gap(state, end)
    if one_by_one:
        settle_returning(state, end)
    times[LAST_END] = end
    if batch.num_decodes > 0:
        counts[FRUITLESS] = 0
    commit_decodes(state, limits, end)
    commit_chunks(state, limits, end)
    ended = counts[ENDING_BEFORE] != NONE or counts[ENDING_NOW] != NONE
    release_finished(state, limits, ENDING_BEFORE, transfers)
    counts[ENDING_BEFORE], counts[ENDING_NOW] = counts[ENDING_NOW], NONE
    if limits.overlapped:
        times[SCHEDULE_AT] = start
    else:
        release_finished(state, limits, ENDING_BEFORE, transfers)
        times[SCHEDULE_AT] = end
    if counts[RECORDING] == 1 and limits.record_queues:
        record_queues(state, limits)
        if transfers is not None:
            record_with_kv(transfers, state)
    counts[NUM_STEPS] += 1
    counts[FOLLOWS] = AFTER_CHUNKS if batch.prefill_tokens > 0 else AFTER_DECODES
    quiet = batch.prefill_tokens == 0 and counts[PART_HEAD] == NONE and not ended
    reported = next_transfer_s(transfers) <= times[SCHEDULE_AT]
    quiet = quiet and not reported and not was_late(transfers)
    counts[QUIET] = 1 if quiet and images_rest(state.vision, state, limits) else 0


@compiled
def run_all(state: State, limits: Limits, params: StepTimeParams, jitter: FloatArray) -> int:
    """Run until every request is finished, or a connector says to wait. Returns a status; after
    LOG_FULL, PAUSED, and STUCK with a connector, it may be called again."""
    counts, times = state.tally.counts, state.tally.times
    while counts[NUM_FINISHED] < state.requests.visible_s.size:
        if counts[QUIET] == 1 and not limits.may_starve and not in_window(state, limits):
            run_quiet(state, limits, params, jitter)
        if times[SCHEDULE_AT] >= until_s(state.transfers):
            return PAUSED
        counts[RECORDING] = 1 if in_window(state, limits) else 0
        if not has_log_room(state) or not has_record_room(state, limits):
            return LOG_FULL
        preempted = schedule(state, limits, state.transfers)
        if preempted and limits.caching and not limits.identities:
            return BLOCKS_MATTER
        if counts[FRUITLESS] > 1000 + 100 * limits.max_active:
            return ENDLESS
        batch = describe_batch(state)
        if batch.prefill_tokens + batch.num_decodes == 0:
            if not wait_for_work(state, limits, preempted, state.transfers):
                return STUCK
            continue
        seconds = step_interval(params, batch, counts[NUM_RUNNING], limits.overlapped)
        seconds *= jitter[counts[NUM_STEPS] % jitter.size]
        run_batch(state, limits, batch, seconds, state.transfers)
        if preempted:
            counts[QUIET] = 0
    return ALL_DONE
