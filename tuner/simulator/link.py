"""The link that a decode engine loads KV over: when each load ends.

Sharing is fluid: L loads in progress each get 1/L of the bandwidth. A load that starts later
postpones the others, but no end before that moment plus the latency, so that a reported end is
never taken back.
"""

from __future__ import annotations

from profiler.compiled import inner
from tuner.simulator.lists import insert_after, remove
from tuner.simulator.state import NONE
from tuner.simulator.transfer_arrays import (
    LINK_AT,
    LINK_HEAD,
    LINK_TAIL,
    NUM_ON_LINK,
    Rules,
    Transfers,
)


@inner
def bytes_after_prefill(rules: Rules, size_bytes: float, early_s: float) -> float:
    """What is left of a load when its prefill ends, where finished layers leave before.

    A prefill that ends at E makes its KV in parts, one per layer of each chunk; part i, of b_i
    bytes, is there at r_i. A link of W bytes a second that serves one part after the other is done
    at max over i of (r_i + (b_i + ... + b_n) / W): i is where it last had nothing to do. So at E

        left = max over i of (b_i + ... + b_n - W (E - r_i)).

    Layers of a chunk take equally long, and later chunks make KV no faster than earlier ones, since
    their context is longer. Then r_i is convex in the bytes before it, and the maximum is at one of
    the ends: all bytes less what the link moves from r_1 to E, or the last part. The last part is
    taken as large as that of a prompt in one chunk:

        left = max(bytes / layers, bytes - W (E - r_1)).

    Splitwise (Patel et al., ISCA 2024, section IV-C) and Mooncake (Qin et al., FAST 2025,
    layer-wise prefill) move KV so; vLLM 0.32's NIXL and Mooncake connectors do not (`save_kv_layer`
    does nothing there). Left out: loads of others that use the link meanwhile, blocks that the
    decode engine must hold for it, that KV which that engine has already need not leave, and
    preemption of the prefill.

    Parameters
    ----------
    size_bytes
        Of the load.
    early_s
        E - r_1, seconds.
    """
    if rules.overlap_layers <= 1:
        return size_bytes
    return max(size_bytes / rules.overlap_layers, size_bytes - rules.bytes_per_s * early_s)


@inner
def time_load(transfers: Transfers, r: int, size_bytes: float, now: float) -> None:
    """The load of `r` starts at `now`, to which `drain_link` has counted. Writes `end_s`."""
    moves, rules = transfers.moves, transfers.rules
    if not rules.shared or size_bytes <= 0.0:
        fixed_s = rules.latency_s + moves.duration_s[r]
        moves.end_s[r] = now + size_bytes / rules.bytes_per_s + fixed_s
        return
    moves.left_bytes[r] = size_bytes
    enter_link(transfers, r)
    project_ends(transfers, now)


@inner
def enter_link(transfers: Transfers, r: int) -> None:
    """Put `r` among the loads on the link. All lose bytes alike, so their order stays."""
    moves, counts = transfers.moves, transfers.counts
    before = counts[LINK_TAIL]
    while before != NONE and moves.left_bytes[before] > moves.left_bytes[r]:
        before = moves.link_prev[before]
    insert_after(counts, moves.link_prev, moves.link_next, LINK_HEAD, before, r)
    counts[NUM_ON_LINK] += 1


@inner
def leave_link(transfers: Transfers, r: int) -> None:
    """The load of `r` is over, if it was on the link: what rounding left of it goes, too."""
    moves = transfers.moves
    if moves.left_bytes[r] > 0.0:
        moves.left_bytes[r] = 0.0
        unlink_load(transfers, r)


@inner
def unlink_load(transfers: Transfers, r: int) -> None:
    """Take `r` from among the loads on the link."""
    moves = transfers.moves
    remove(transfers.counts, moves.link_prev, moves.link_next, LINK_HEAD, r)
    transfers.counts[NUM_ON_LINK] -= 1


@inner
def drain_link(transfers: Transfers, now: float) -> None:
    """Count `left_bytes` down from LINK_AT to `now`, before any load that has ended is reported."""
    moves, times, counts = transfers.moves, transfers.times, transfers.counts
    at, rate = times[LINK_AT], transfers.rules.bytes_per_s
    while at < now and counts[NUM_ON_LINK] > 0:
        num, least = counts[NUM_ON_LINK], moves.left_bytes[counts[LINK_HEAD]]
        step_s = least * num / rate
        moved = least  # to the last bit, so that every turn but the last ends a load
        if step_s > now - at:
            step_s = now - at
            moved = step_s * rate / num
        move_bytes(transfers, moved)
        at = now if step_s == now - at else at + step_s
    times[LINK_AT] = now


@inner
def move_bytes(transfers: Transfers, moved: float) -> None:
    """Every load on the link moves so many bytes; those that are done leave it."""
    moves, counts = transfers.moves, transfers.counts
    r = counts[LINK_HEAD]
    while r != NONE:
        after = moves.link_next[r]
        moves.left_bytes[r] -= moved
        if moves.left_bytes[r] <= 0.0:
            unlink_load(transfers, r)
        r = after


@inner
def project_ends(transfers: Transfers, now: float) -> None:
    """When the loads on the link end if no other starts."""
    moves, rules = transfers.moves, transfers.rules
    at, done, num = now, 0.0, transfers.counts[NUM_ON_LINK]
    r = transfers.counts[LINK_HEAD]
    while r != NONE:
        if moves.left_bytes[r] > done:
            at += (moves.left_bytes[r] - done) * num / rules.bytes_per_s
            done = moves.left_bytes[r]
        moves.end_s[r] = at + rules.latency_s + moves.duration_s[r]
        num -= 1
        r = moves.link_next[r]
