"""Which replica a request is sent to: the router's rules, and what they may know.

A router knows what it sent where and what has been answered, not the engines' queues. A request is
outstanding on a replica from the moment it is sent until the replica's last answer reaches the
router: the last token, at a prefill replica its only one, or that its load has failed. An answer
that arrives together with a request counts. The first replica of a request (an aggregated or a
prefill one, numbered over the aggregated pools, then prefill) is chosen when it arrives, its decode
replica when the prefill's answer reaches the router.

Only replicas whose pool takes the request compete: a prompt that is longer than a pool's model
length or KV cache goes to the others. In a fleet of aggregated and prefill replicas all first
replicas compete alike, but under the rules that name two groups. A replica with an outstanding
request is busy, one without is idle. Equal choices go to the replica with the lowest number.

The prefix-aware rule is the cache-aware policy of SGLang's router (`cache_aware.rs` of sgl-router;
the same in vllm-router): the router remembers which leading blocks of prompts it has sent where and
forgets none of them, and leaves that aside while the load is uneven. Theirs also asks that half the
prompt matches (`cache_threshold`); here the longest match decides, however short.
"""

from __future__ import annotations

from dataclasses import dataclass

from profiler.errors import SimulationError

ROUND_ROBIN = "round-robin"
LEAST_REQUESTS = "least-requests"
LEAST_TOKENS = "least-tokens"
POWER_OF_TWO = "power-of-two"
PREFIX_AWARE = "prefix-aware"
PROMPT_LENGTH = "prompt-length"
PRIORITY = "priority"

RULES = {
    ROUND_ROBIN: "each replica in turn",
    LEAST_REQUESTS: "the replica with the fewest outstanding requests",
    LEAST_TOKENS: "the replica with the fewest prompt tokens of outstanding requests",
    POWER_OF_TWO: "of two different ones drawn at random, the one with fewer outstanding requests",
    PREFIX_AWARE: "of the replicas that were sent the longest part of the prompt before, the one "
    "with the fewest outstanding requests; of all while the load is uneven",
    PROMPT_LENGTH: "prompts up to a limit to the first aggregated pool, longer ones to the other "
    "replicas, each to the one with the fewest outstanding requests; short ones spill over to an "
    "idle one of the others when every replica for short prompts is busy",
    PRIORITY: "urgent requests to the reserved replicas, the rest to the others, each to the one "
    "with the fewest outstanding requests; urgent ones spill over to an idle one of the others "
    "when every reserved one is busy",
}
"""name of each rule -> what it does, for help texts"""


@dataclass(frozen=True)
class Router:
    """How requests are spread over the replicas of a fleet."""

    rule: str = ROUND_ROBIN
    """for the first replica of a request: an aggregated or a prefill one"""
    decode_rule: str = ROUND_ROBIN
    """for its decode replica; one of the first four rules"""
    short_tokens: int = 2048
    """prompt-length: most prompt tokens of a short prompt"""
    urgent_priority: int = 0
    """priority: requests up to this priority are urgent"""
    reserved_share: float = 0.25
    """priority: part of the first replicas, rounded down but at least one, that is reserved for
    urgent requests: those with the lowest numbers"""
    guard_requests: int = 32
    """prefix-aware: the load is uneven while the replica with the most outstanding requests has
    more than so many more than the one with the fewest (SGLang's balance_abs_threshold)"""
    guard_ratio: float = 1.1
    """prefix-aware: and more than so many times as many (SGLang's balance_rel_threshold)"""
    seed: int = 0
    """power-of-two: draws the pairs"""

    def __post_init__(self) -> None:
        for name, rule, known in (
            ("rule", self.rule, list(RULES)),
            ("decode_rule", self.decode_rule, list(RULES)[:4]),
        ):
            if rule not in known:
                raise SimulationError(
                    f"router {name} must be one of {', '.join(known)}; got {rule!r}"
                )
