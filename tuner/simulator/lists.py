"""The linked lists of the simulator: running order, partial prefills, decodes by end."""

from __future__ import annotations

from profiler.compiled import inner
from tuner.simulator.state import (
    FREE_HEAD,
    FREE_TAIL,
    NEXT_TICKET,
    NONE,
    NUM_RUNNING,
    PART_HEAD,
    PART_TAIL,
    RUN_HEAD,
    RUN_TAIL,
    IntArray,
    State,
)


@inner
def append(counts: IntArray, prev: IntArray, succ: IntArray, head: int, r: int) -> None:
    """Append `r` to the list whose head index is counts[head] and whose tail follows it."""
    tail = counts[head + 1]
    prev[r], succ[r] = tail, NONE
    if tail == NONE:
        counts[head] = r
    else:
        succ[tail] = r
    counts[head + 1] = r


@inner
def prepend(counts: IntArray, prev: IntArray, succ: IntArray, head: int, r: int) -> None:
    """Put `r` in front of the list whose head index is counts[head] and whose tail follows it."""
    first = counts[head]
    prev[r], succ[r] = NONE, first
    if first == NONE:
        counts[head + 1] = r
    else:
        prev[first] = r
    counts[head] = r


@inner
def insert_after(  # noqa: PLR0913  (a list is four of them)
    counts: IntArray, prev: IntArray, succ: IntArray, head: int, before: int, r: int
) -> None:
    """Put `r` behind `before`, or in front if that is NONE, in the list of `append`."""
    if before == counts[head + 1]:
        append(counts, prev, succ, head, r)
        return
    after = counts[head] if before == NONE else succ[before]
    prev[r], succ[r], prev[after] = before, after, r
    if before == NONE:
        counts[head] = r
    else:
        succ[before] = r


@inner
def remove(counts: IntArray, prev: IntArray, succ: IntArray, head: int, r: int) -> None:
    """Take `r` out of the list whose head index is counts[head]."""
    before, after = prev[r], succ[r]
    if before == NONE:
        counts[head] = after
    else:
        succ[before] = after
    if after == NONE:
        counts[head + 1] = before
    else:
        prev[after] = before


@inner
def append_running(state: State, r: int) -> None:
    """`r` becomes the last of the running list."""
    counts, links = state.tally.counts, state.links
    append(counts, links.order_prev, links.order_next, RUN_HEAD, r)
    links.ticket[r] = counts[NEXT_TICKET]
    counts[NEXT_TICKET] += 1
    counts[NUM_RUNNING] += 1


@inner
def remove_running(state: State, r: int) -> None:
    """Take `r` out of the running list."""
    counts, links = state.tally.counts, state.links
    remove(counts, links.order_prev, links.order_next, RUN_HEAD, r)
    counts[NUM_RUNNING] -= 1


@inner
def append_partial(state: State, r: int) -> None:
    """`r` becomes the last of the partial prefills."""
    links = state.links
    append(state.tally.counts, links.kind_prev, links.kind_next, PART_HEAD, r)


@inner
def remove_partial(state: State, r: int) -> None:
    """Take `r` out of the partial prefills."""
    links = state.links
    remove(state.tally.counts, links.kind_prev, links.kind_next, PART_HEAD, r)


@inner
def link_end(state: State, r: int) -> None:
    """Note at which clock the decode `r` ends."""
    links = state.links
    slot = state.progress.end_clock[r] % state.tally.ring.size
    first = state.tally.ring[slot]
    links.kind_prev[r], links.kind_next[r] = NONE, first
    if first != NONE:
        links.kind_prev[first] = r
    state.tally.ring[slot] = r


@inner
def unlink_end(state: State, r: int) -> None:
    """Forget at which clock the decode `r` ends."""
    links = state.links
    before, after = links.kind_prev[r], links.kind_next[r]
    if before == NONE:
        state.tally.ring[state.progress.end_clock[r] % state.tally.ring.size] = after
    else:
        links.kind_next[before] = after
    if after != NONE:
        links.kind_prev[after] = before


assert RUN_TAIL == RUN_HEAD + 1
assert PART_TAIL == PART_HEAD + 1
assert FREE_TAIL == FREE_HEAD + 1
