"""The link that a decode engine loads KV over: when each load ends.

Sharing is fluid: L loads in progress each get 1/L of the bandwidth. A load that starts later
postpones the others, but no end before that moment plus the latency, so that a reported end is
never taken back.
"""

from __future__ import annotations

import numpy as np

from profiler.compiled import inner
from tuner.simulator.state import NONE
from tuner.simulator.transfer_arrays import (
    KV_HEAD,
    LINK_AT,
    LOADING,
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
    """The load of `r`, already in the queue of those that hold KV, starts at `now`, to which
    `drain_link` has counted. Writes `end_s`."""
    moves, rules = transfers.moves, transfers.rules
    fixed_s = rules.latency_s + moves.duration_s[r]
    moves.left_bytes[r] = size_bytes
    if not rules.shared:
        moves.end_s[r] = now + size_bytes / rules.bytes_per_s + fixed_s
        return
    project_ends(transfers, now)


@inner
def drain_link(transfers: Transfers, now: float) -> None:
    """Count `left_bytes` down from LINK_AT to `now`, before any load that has ended is reported."""
    moves, times = transfers.moves, transfers.times
    at, rate = times[LINK_AT], transfers.rules.bytes_per_s
    while at < now:
        num, least = loads_left(transfers, 0.0)
        if num == 0:
            break
        step_s = least * num / rate
        moved = least  # to the last bit, so that every turn but the last ends a load
        if step_s > now - at:
            step_s = now - at
            moved = step_s * rate / num
        r = transfers.counts[KV_HEAD]
        while r != NONE:
            if moves.stage[r] == LOADING and moves.left_bytes[r] > 0.0:
                moves.left_bytes[r] -= moved
            r = moves.next[r]
        at = now if step_s == now - at else at + step_s
    times[LINK_AT] = now


@inner
def project_ends(transfers: Transfers, now: float) -> None:
    """When the loads on the link end if no other starts."""
    moves, rules = transfers.moves, transfers.rules
    at, done = now, 0.0
    while True:
        num, least = loads_left(transfers, done)
        if num == 0:
            break
        at += (least - done) * num / rules.bytes_per_s
        done = least
        r = transfers.counts[KV_HEAD]
        while r != NONE:
            if moves.stage[r] == LOADING and moves.left_bytes[r] == done:
                moves.end_s[r] = at + rules.latency_s + moves.duration_s[r]
            r = moves.next[r]


@inner
def loads_left(transfers: Transfers, done: float) -> tuple[int, float]:
    """Loads with more than `done` bytes left, and the least that one of them has left."""
    moves, num, least = transfers.moves, 0, np.inf
    r = transfers.counts[KV_HEAD]
    while r != NONE:
        if moves.stage[r] == LOADING and moves.left_bytes[r] > done:
            num += 1
            least = min(least, moves.left_bytes[r])
        r = moves.next[r]
    return num, least
