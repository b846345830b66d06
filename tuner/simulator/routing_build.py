"""What the compiled rules of the router read, from a `Router` and a trace."""

from __future__ import annotations

import numpy as np

from profiler.errors import SimulationError
from profiler.traffic.trace import Trace
from tuner.simulator.fleet_arrays import (
    BY_GROUP,
    FEWEST_REQUESTS,
    FEWEST_TOKENS,
    IN_TURN,
    LONGEST_PREFIX,
    TWO_DRAWN,
    BoolArray,
    Routing,
)
from tuner.simulator.memory import ints
from tuner.simulator.prefix_keys import prefix_blocks
from tuner.simulator.router import (
    LEAST_REQUESTS,
    LEAST_TOKENS,
    POWER_OF_TWO,
    PREFIX_AWARE,
    PRIORITY,
    PROMPT_LENGTH,
    ROUND_ROBIN,
    Router,
)
from tuner.simulator.state import NONE, IntArray

RULE_CODES = {
    ROUND_ROBIN: IN_TURN,
    LEAST_REQUESTS: FEWEST_REQUESTS,
    LEAST_TOKENS: FEWEST_TOKENS,
    POWER_OF_TWO: TWO_DRAWN,
    PREFIX_AWARE: LONGEST_PREFIX,
    PROMPT_LENGTH: BY_GROUP,
    PRIORITY: BY_GROUP,
}


def build_routing(trace: Trace, accepted: BoolArray, router: Router, num_replicas: int) -> Routing:
    """Nothing has been sent."""
    k, drawn = int(accepted.sum()), POWER_OF_TWO in (router.rule, router.decode_rule)
    rng = np.random.default_rng(router.seed)
    draws = rng.random((2, k, 2)) if drawn else np.zeros((2, k, 2))
    ids, rows = prefix_rows(trace) if router.rule == PREFIX_AWARE else (ints(0), 0)
    return Routing(
        np.zeros(num_replicas, np.bool_),
        draws,
        ids,
        np.zeros((rows, num_replicas), np.bool_),
        int(router.guard_requests),
        float(router.guard_ratio),
    )


def prefix_rows(trace: Trace) -> tuple[IntArray, int]:
    """(H,) a running number for each prefix block that several requests have, NONE for others, and
    how many there are."""
    blocks = prefix_blocks(trace)
    alike = np.bincount(blocks.ids, minlength=blocks.num) > 1
    row = np.cumsum(alike) - 1
    return np.where(alike, row, NONE)[blocks.ids].astype(np.int64), int(alike.sum())


def group_requests(trace: Trace, router: Router) -> IntArray:
    """(N,) 0 for the short or urgent requests, 1 for the others."""
    if router.rule == PROMPT_LENGTH:
        return (trace.prompt_tokens > router.short_tokens).astype(np.int64)
    if router.rule != PRIORITY:
        return ints(trace.num_requests)
    if trace.priority is None:
        raise SimulationError(
            f"the router's rule {PRIORITY} needs a trace with priorities; take another rule"
        )
    return (trace.priority > router.urgent_priority).astype(np.int64)


def group_replicas(router: Router, num_first: int, num_short: int) -> IntArray:
    """(num_first,) 0 for the replicas of the short or urgent requests, 1 for the others."""
    if router.rule == PROMPT_LENGTH:
        reserved, what = num_short, "an aggregated pool for short prompts, and another one"
    elif router.rule == PRIORITY:
        reserved = max(1, int(router.reserved_share * num_first))
        what = f"more replicas than the {reserved} that it reserves"
    else:
        return ints(num_first)
    if not 0 < reserved < num_first:
        raise SimulationError(f"the router's rule {router.rule} needs {what}; take another rule")
    return np.where(np.arange(num_first) < reserved, 0, 1).astype(np.int64)
