"""The deployments a verdict chooses between, their neighbours in P:D, and how one scored."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from tuner.fleet_plan import AGGREGATED, DECODE, DISAGGREGATED, PREFILL, FleetPlan, PoolSetup


class Side(StrEnum):
    """Whether prefill and decode are on the same replicas."""

    AGGREGATED = AGGREGATED
    DISAGGREGATED = DISAGGREGATED


SIDES = (Side.AGGREGATED, Side.DISAGGREGATED)


@dataclass(frozen=True)
class Option:
    """One deployment that may be chosen."""

    name: str
    """unique among the options of a verdict"""
    plan: FleetPlan

    @property
    def side(self) -> Side:
        """A fleet with some aggregated replicas beside its pools counts as disaggregated."""
        return Side.AGGREGATED if self.pools is None else Side.DISAGGREGATED

    @property
    def pools(self) -> tuple[PoolSetup, PoolSetup] | None:
        """Prefill and decode, if the plan has them."""
        prefill, decode = self.plan.pool(PREFILL), self.plan.pool(DECODE)
        return None if prefill is None or decode is None else (prefill, decode)

    @property
    def ratio(self) -> str | None:
        """ "P:D", replicas; None for an aggregated fleet."""
        return None if self.pools is None else ":".join(str(p.replicas) for p in self.pools)


@dataclass(frozen=True)
class Score:
    """How an option did under some conditions."""

    goodput: float
    """good requests per second and GPU: share of good requests x arrival rate / GPUs"""
    attainment: float
    """share of the requests that met every SLO of their class"""
    violation: float
    """worst relative violation of an SLO; at most 0 when all are met"""
    refused: str | None = None
    """why it could not be simulated; it then scores 0"""

    @property
    def meets_slo(self) -> bool:
        return self.violation <= 0.0

    @property
    def key(self) -> tuple[float, float]:
        """Smaller is better: more goodput first, then more room to the nearest limit."""
        return -self.goodput, self.violation


def refused(why: str) -> Score:
    """The score of an option that could not be simulated."""
    return Score(0.0, 0.0, math.inf, why)


def with_ratio(option: Option, prefill: int, decode: int) -> Option:
    """The same settings with other numbers of prefill and decode replicas."""
    replicas = {PREFILL: prefill, DECODE: decode}
    pools = tuple(
        replace(pool, replicas=replicas.get(pool.role, pool.replicas)) for pool in option.plan.pools
    )
    return Option(f"{option.name}@{prefill}:{decode}", replace(option.plan, pools=pools))


def ratios(option: Option) -> list[Option]:
    """The same settings at every P:D that fits into its pools' GPUs, itself included, by P.

    For each number of prefill replicas, as many decode replicas as the remaining GPUs hold.
    """
    if option.pools is None:
        return []
    prefill, decode = option.pools
    total = prefill.num_gpus + decode.num_gpus
    most = (total - decode.tp) // prefill.tp
    found = []
    for num in range(1, most + 1):
        rest = (total - num * prefill.tp) // decode.tp
        same = (num, rest) == (prefill.replicas, decode.replicas)
        found.append(option if same else with_ratio(option, num, rest))
    return found


def thinned(options: Sequence[Option], kept: Option, most: int) -> list[Option]:
    """At most `most` of the options, evenly spread over their order, `kept` among them."""
    if len(options) <= most:
        return list(options)
    places = {round(i * (len(options) - 1) / (most - 2)) for i in range(most - 1)}
    return [option for i, option in enumerate(options) if i in places or option == kept]


def neighbours(option: Option) -> list[Option]:
    """The same settings with one prefill replica fewer and one more, where that fits."""
    every = ratios(option)
    at = every.index(option) if every else 0
    return every[max(0, at - 1) : at] + every[at + 1 : at + 2]


def short_list(options: Sequence[Option], top: int) -> list[Option]:
    """The first `top` of each side, and the neighbours in P:D of the first split one.

    `options` come best first. Equal plans count once.
    """
    chosen: list[Option] = []
    for side in SIDES:
        chosen += distinct([o for o in options if o.side is side])[:top]
    split = [o for o in chosen if o.side is Side.DISAGGREGATED]
    return distinct(chosen + (neighbours(split[0]) if split else []))


def distinct(options: Sequence[Option]) -> list[Option]:
    """The options without those whose plan an earlier one has."""
    kept: list[Option] = []
    for option in options:
        if all(option.plan != other.plan for other in kept):
            kept.append(option)
    return kept
