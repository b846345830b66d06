"""The simulated router rules in terms of `vllm-router`, which compose, kubernetes and vllm use.

Flags: github.com/vllm-project/router, `docs/cli_reference.md` and `docs/load_balancing/README.md`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from tuner.export.deployment import Deployment, Role
from tuner.export.settings_report import Fate, Fates, exported, not_expressible, translated
from tuner.simulator.router import (
    LEAST_REQUESTS,
    LEAST_TOKENS,
    POWER_OF_TWO,
    PREFIX_AWARE,
    PRIORITY,
    PROMPT_LENGTH,
    ROUND_ROBIN,
)

ROUTER_IMAGE = "vllm/vllm-router:nightly-20260710-b93cbcb"
ROUTER_PORT = 8080
_POLL_S = 1
"""`power_of_two` reads loads as often as it checks starting workers, 30 s by default"""


class Choice(NamedTuple):
    """A rule in a target's terms."""

    name: str
    fate: Fate


Choices = Mapping[str, Choice]
"""simulated rule -> the target's"""

_CACHE_AWARE = "cache_aware"
_NEAREST = "nearest is power_of_two, which the files have; with two replicas it is the same"
VLLM_ROUTER: Choices = {
    ROUND_ROBIN: Choice("round_robin", exported("--policy round_robin")),
    POWER_OF_TWO: Choice("power_of_two", exported("--policy power_of_two")),
    PREFIX_AWARE: Choice(
        _CACHE_AWARE,
        translated("--policy cache_aware: the same idea with other details (--cache-threshold)"),
    ),
    LEAST_REQUESTS: Choice(
        "power_of_two", not_expressible(f"vllm-router has no such policy; {_NEAREST}")
    ),
    LEAST_TOKENS: Choice(
        "power_of_two",
        not_expressible("vllm-router does not count tokens; power_of_two is in the files"),
    ),
    PROMPT_LENGTH: Choice(
        "round_robin",
        not_expressible("vllm-router does not look at lengths; round_robin is in the files"),
    ),
    PRIORITY: Choice(
        "round_robin",
        not_expressible("vllm-router does not look at priorities; round_robin is in the files"),
    ),
}

ONE_REPLICA = translated("nothing to choose: there is one replica")


def choice(choices: Choices, rule: str, replicas: int) -> Choice:
    """`rule` in a target's terms; one replica needs no rule."""
    if replicas > 1:
        return choices[rule]
    return Choice(choices[ROUND_ROBIN].name, ONE_REPLICA)


def rule_fates(deployment: Deployment, choices: Choices) -> Fates:
    """Fates of the rules, for a target whose router has `choices`; a rule's own settings are left
    to the target."""
    if not deployment.is_pd:
        return {"router.rule": _choices_of(deployment, choices)[0].fate}
    prefill, decode = _choices_of(deployment, choices)
    return {"router.rule": prefill.fate, "router.decode_rule": decode.fate}


def _choices_of(deployment: Deployment, choices: Choices) -> list[Choice]:
    router = deployment.router
    if not deployment.is_pd:
        return [choice(choices, router.rule, deployment.num_replicas)]
    return [
        choice(choices, rule, deployment.pool_with(role).replicas)
        for rule, role in ((router.rule, Role.PREFILL), (router.decode_rule, Role.DECODE))
    ]


def vllm_router_fates(deployment: Deployment) -> Fates:
    """Fates of every router setting where `vllm-router` is the router, if there is a choice."""
    if not deployment.has_choice:
        return {"router": ONE_REPLICA}
    guards: Fates = {
        "router.guard_requests": exported("--balance-abs-threshold"),
        "router.guard_ratio": exported("--balance-rel-threshold"),
    }
    is_used = _CACHE_AWARE in (c.name for c in _choices_of(deployment, VLLM_ROUTER))
    return {
        "router": not_expressible("the rule that it belongs to is not in the files"),
        **(guards if is_used else {}),
        **rule_fates(deployment, VLLM_ROUTER),
    }


def policy_flags(deployment: Deployment) -> list[str]:
    """`vllm-router` words for the rules and what belongs to them."""
    names = [c.name for c in _choices_of(deployment, VLLM_ROUTER)]
    flags = ["--policy", "--prefill-policy", "--decode-policy"]
    words = [w for pair in zip(flags[deployment.is_pd :], names, strict=False) for w in pair]
    router = deployment.router
    if _CACHE_AWARE in names:
        words += ["--balance-abs-threshold", str(router.guard_requests)]
        words += ["--balance-rel-threshold", str(router.guard_ratio)]
    if "power_of_two" in names:
        words += ["--worker-startup-check-interval", str(_POLL_S)]
    return words


def router_words(deployment: Deployment, urls: Mapping[str, list[str]]) -> list[str]:
    """The whole `vllm-router` command for replicas at known addresses; it listens on 127.0.0.1.

    `urls` are those of each pool's replicas, by label.
    """
    words = ["vllm-router", "--port", str(ROUTER_PORT), *policy_flags(deployment)]
    if not deployment.is_pd:
        workers = [url for pool in deployment.pools for url in urls[pool.label]]
        return [*words, "--worker-urls", *workers]
    words.append("--vllm-pd-disaggregation")
    for pool in deployment.pools:
        for url in urls[pool.label]:
            words += [f"--{pool.role}", url]
    return words
