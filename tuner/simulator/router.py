"""Which replica a request is sent to: the router's rules, and what they may know.

A router knows what it sent where and what has been answered, not the engines' queues. A request is
outstanding on a replica from the moment it is sent until the replica's answer reaches the router.
Equal choices go to the replica with the lowest number.
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
    POWER_OF_TWO: "of two drawn at random, the one with fewer outstanding requests",
    PREFIX_AWARE: "the replica that was sent the longest part of the prompt before, unless it is "
    "too far ahead of the others; else the one with the fewest outstanding requests",
    PROMPT_LENGTH: "prompts up to a limit to the replicas for short prompts, longer ones to the "
    "others; short ones spill over to an idle replica for long ones when every short one is busy",
    PRIORITY: "urgent requests to the reserved replicas, the rest to the others; urgent ones spill "
    "over to an idle one of the others",
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
    """priority: part of the first replicas that is reserved for urgent requests, at least one"""
    guard_requests: int = 32
    """prefix-aware: a replica may be so many outstanding requests ahead of the least loaded one"""
    guard_ratio: float = 1.1
    """prefix-aware: and only if it has more than so many times as many"""
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
