"""The waiting queue: first come first served, or a heap by priority.

Mirrors `vllm/v1/core/sched/request_queue.py` of vLLM 0.32; holds for >=0.12 by reading. In
first-come order the queue is the stack of preempted requests, then the arrivals NEXT .. VISIBLE;
under priorities it is a heap on (priority, arrival, request), and NEXT is always VISIBLE.
"""

from __future__ import annotations

from profiler.compiled import inner
from tuner.simulator.state import (
    NEXT,
    NONE,
    NUM_STACKED,
    STACK_HEAD,
    VISIBLE,
    IntArray,
    Limits,
    State,
)


@inner
def see_arrivals(state: State, limits: Limits, now: float) -> None:
    """Requests that reached the scheduler by `now` enter the waiting queue (EngineCore input)."""
    counts, visible_s = state.tally.counts, state.requests.visible_s
    i = counts[VISIBLE]
    while i < visible_s.size and visible_s[i] <= now:
        if limits.priority:
            push_heap(state, i)
            counts[NEXT] = i + 1
        i += 1
    counts[VISIBLE] = i


@inner
def num_waiting(state: State) -> int:
    """Length of the waiting queue."""
    counts = state.tally.counts
    return counts[NUM_STACKED] + counts[VISIBLE] - counts[NEXT]


@inner
def waiting_head(state: State, limits: Limits) -> int:
    """First of the waiting queue, or NONE."""
    counts = state.tally.counts
    if limits.priority:
        return state.tally.heap[0] if counts[NUM_STACKED] > 0 else NONE
    if counts[STACK_HEAD] != NONE:
        return counts[STACK_HEAD]
    return counts[NEXT] if counts[NEXT] < counts[VISIBLE] else NONE


@inner
def pop_waiting(state: State, limits: Limits) -> None:
    """Take the first request off the waiting queue."""
    counts = state.tally.counts
    if limits.priority:
        pop_heap(state)
    elif counts[STACK_HEAD] != NONE:
        counts[STACK_HEAD] = state.links.order_next[counts[STACK_HEAD]]
        counts[NUM_STACKED] -= 1
    else:
        counts[NEXT] += 1


@inner
def push_waiting(state: State, limits: Limits, r: int) -> None:
    """Put the preempted `r` back: to the front, or to its place by priority (prepend_request)."""
    counts = state.tally.counts
    if limits.priority:
        push_heap(state, r)
        return
    state.links.order_next[r] = counts[STACK_HEAD]
    counts[STACK_HEAD] = r
    counts[NUM_STACKED] += 1


@inner
def is_before(urgency: IntArray, a: int, b: int) -> bool:
    """Whether `a` is admitted before `b` (Request.__lt__); requests are numbered by arrival."""
    return urgency[a] < urgency[b] or (urgency[a] == urgency[b] and a < b)


@inner
def push_heap(state: State, r: int) -> None:
    """Add `r` to the heap."""
    counts, heap, urgency = state.tally.counts, state.tally.heap, state.requests.urgency
    i = counts[NUM_STACKED]
    counts[NUM_STACKED] = i + 1
    while i > 0 and is_before(urgency, r, heap[(i - 1) // 2]):
        heap[i] = heap[(i - 1) // 2]
        i = (i - 1) // 2
    heap[i] = r


@inner
def pop_heap(state: State) -> None:
    """Take the first request off the heap."""
    counts, heap, urgency = state.tally.counts, state.tally.heap, state.requests.urgency
    size = counts[NUM_STACKED] - 1
    counts[NUM_STACKED] = size
    r, i = heap[size], 0
    while 2 * i + 1 < size:
        child = 2 * i + 1
        if child + 1 < size and is_before(urgency, heap[child + 1], heap[child]):
            child += 1
        if is_before(urgency, r, heap[child]):
            break
        heap[i] = heap[child]
        i = child
    heap[i] = r
