"""Simulates options under conditions. Plain data, so that it can go to worker processes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from profiler.traffic.trace import Trace
from tuner.fleet_plan import FleetPlan
from tuner.metrics import Metrics, compute
from tuner.search.objective import REFUSED
from tuner.simulator.fleet import Fleet, simulate_fleet
from tuner.slo import Slo
from tuner.verdict.conditions import Conditions, scale_prompts
from tuner.verdict.options import Option, Score, refused
from tuner.windows import draw_windows


@dataclass(frozen=True)
class Bench:
    """Traffic, SLOs, and how a plan becomes a fleet.

    An option's simulations take the same requests and seeds as any other's under the same
    conditions (common random numbers).
    """

    pieces: tuple[Trace, ...]
    """the traffic, then parts of it; see `Conditions.piece`"""
    slo: Slo
    build: Callable[[FleetPlan], Fleet]
    """a function or method that pickle can name"""
    max_model_len: int | None = None
    """no prompt is stretched beyond it"""
    windows: int = 1
    seed: int = 0
    rates: Mapping[int, float] = field(default_factory=dict)
    """piece -> rate of its goodput, where its requests take a part of its time only"""

    def __call__(self, option: Option, where: Conditions) -> Score:
        """Score an option; what cannot be simulated scores 0."""
        try:
            metrics = self.metrics(option, where)
        except REFUSED as error:
            return refused(str(error))
        rate = self.rates.get(where.piece, self.traffic(where).rate_rps)
        goodput = metrics.slo_attainment * rate / option.plan.num_gpus
        return Score(goodput, metrics.slo_attainment, metrics.worst_violation)

    def metrics(self, option: Option, where: Conditions) -> Metrics:
        """Metrics of an option. Raises what the simulator raises (`REFUSED`)."""
        fleet = self.build(option.plan)
        if fleet.link is not None:
            speed = fleet.link.bytes_per_s * where.link_bandwidth
            fleet = replace(fleet, link=replace(fleet.link, bytes_per_s=speed))
        simulation = simulate_fleet(
            self.traffic(where),
            fleet,
            itl_limit_s=self.slo.itl_limit_s,
            seed=self.seed + where.window,
        )
        return compute(simulation.outcomes, self.slo)

    def traffic(self, where: Conditions) -> Trace:
        """The requests under the conditions."""
        trace = self.drawn[where.window - 1] if where.window else self.pieces[where.piece]
        trace = scale_prompts(trace, where.prompt_length, self.max_model_len)
        return trace if where.load == 1.0 else trace.scale_rate(trace.rate_rps * where.load)

    @cached_property
    def drawn(self) -> list[Trace]:
        """Windows of the traffic but the first, which is the traffic itself."""
        return draw_windows(self.pieces[0], self.windows)
