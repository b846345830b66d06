"""Has the traffic drifted from what the study was tuned on?

Compared are the arrival rate, the lengths of prompts and outputs, and the share of prompt tokens
that an earlier prompt had, of all requests and of every class. Each has

an effect size
    rate: the larger rate over the smaller one, minus 1; lengths: the area between the two
    distributions over the mean before (Wasserstein's distance, so 0.5 when every length grows by
    half); sharing: the difference of the two shares.
a p-value
    how often two windows resampled from the traffic *before*, one as long as each trace, differ as
    much (`tuner.drift.cells`); corrected for the number of comparisons by Holm's method.

It has drifted where the effect is at least `LEAST` and p at most `LEVEL`. With thousands of
requests a p-value alone calls any difference a drift; an effect alone does so by chance.

Measured (`tests/benchmarks/test_watch_false_alarms.py`): drift was called in 0 of 200 windows of
the Azure conversation hour, of ten and of two minutes of it, and in 0 of 200 independent traces
like Mooncake's (each at most 1.8 %, with 95 % confidence). Lengths x 1.5, a rate x 1.3 and a third
of the prompts without their shared prefix were found in 50 of 50 each. A plain Kolmogorov-Smirnov
test of the lengths calls 177 of 200 unshifted windows of the hour drifted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from profiler.errors import TraceError
from profiler.traffic.checks import BoolArray, FloatArray
from profiler.traffic.trace import Trace
from tuner.drift.cells import TIME, Columns, cells_of, columns_of, grid_of, resample
from tuner.drift.finding import ALL, Finding, holm, p_values

RATE, PROMPT, OUTPUT, SHARING = "arrival rate", "prompt length", "output length", "prefix sharing"
LEAST = {RATE: 0.15, PROMPT: 0.15, OUTPUT: 0.15, SHARING: 0.05}
"""least effect that is a drift"""
_UNITS = {RATE: "requests/s", PROMPT: "tokens", OUTPUT: "tokens", SHARING: "of prompt tokens"}
LEAST_REQUESTS = 50
"""requests that a comparison needs of each trace"""
_UNNAMED = Trace.class_names
"""classes of traffic that does not tell them apart"""
_RESAMPLES = 999
_SEED = 1979


@dataclass(frozen=True)
class TrafficDrift:
    """What was compared, and what could not be."""

    findings: list[Finding]
    not_judged: list[str]
    """in words"""

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        return {
            "findings": [f.to_dict() for f in self.findings],
            "not_judged": self.not_judged,
        }


def compare_traffic(before: Trace, after: Trace) -> TrafficDrift:
    """How the traffic `after` differs from `before`.

    Raises
    ------
    TraceError
        One of them has too few requests, or all at once.
    """
    for trace, name in ((before, "study's"), (after, "new")):
        if trace.num_requests < LEAST_REQUESTS or trace.duration_s <= 0:
            raise TraceError(
                f"the {name} traffic has {trace.num_requests} requests in {trace.duration_s:g} s; "
                f"a comparison needs at least {LEAST_REQUESTS} that do not all arrive at once"
            )
    groups, not_judged = _groups(before, after)
    asked = [RATE, PROMPT, OUTPUT]
    if before.prefix_hashes is not None and after.prefix_hashes is not None:
        asked.append(SHARING)
    elif before.prefix_hashes is not None or after.prefix_hashes is not None:
        which = "study's" if before.prefix_hashes is None else "new"
        not_judged.append(f"{SHARING}: the {which} traffic does not record prefixes")
    return TrafficDrift(_findings(before, after, groups, asked), not_judged)


@dataclass(frozen=True)
class _Group:
    """Requests of a class, or all, in both traces."""

    name: str
    before: BoolArray
    after: BoolArray

    @property
    def has_lengths(self) -> bool:
        """Whether there are enough in both to compare more than how many there are."""
        return bool(min(self.before.sum(), self.after.sum()) >= LEAST_REQUESTS)


def _groups(before: Trace, after: Trace) -> tuple[list[_Group], list[str]]:
    """What is compared, and in words which classes are too rare for it."""
    everything = [np.ones(t.num_requests, dtype=np.bool_) for t in (before, after)]
    groups = [_Group(ALL, *everything)]
    not_judged: list[str] = []
    names = list(dict.fromkeys((*before.class_names, *after.class_names)))
    if len(names) > 1 and _UNNAMED in (before.class_names, after.class_names):
        names, not_judged = [], ["classes: only one of the two tells them apart"]
    for name in names if len(names) > 1 else []:
        group = _Group(name, _of_class(before, name), _of_class(after, name))
        expected = group.before.sum() * after.num_requests / before.num_requests
        if max(expected, group.after.sum()) >= LEAST_REQUESTS:
            groups.append(group)
        else:
            not_judged.append(f"class {name}: {group.after.sum()} requests in the new traffic")
    return groups, not_judged


def _of_class(trace: Trace, name: str) -> BoolArray:
    if name not in trace.class_names:
        return np.zeros(trace.num_requests, dtype=np.bool_)
    of_class: BoolArray = trace.classes == trace.class_names.index(name)
    return of_class


def _findings(before: Trace, after: Trace, groups: list[_Group], asked: list[str]) -> list[Finding]:
    """Every comparison, corrected as one family."""
    grid = grid_of(before, after)
    columns = columns_of(grid, len(groups))
    old = cells_of(before, grid, [g.before for g in groups])
    new = cells_of(after, grid, [g.after for g in groups])
    tests = [
        _Test(quantity, group.name, own)
        for group, own in zip(groups, columns, strict=True)
        for quantity in asked
        if quantity == RATE or group.has_lengths
    ]
    num = max(_RESAMPLES, 40 * len(tests))  # enough for the smallest p that Holm asks for
    rng = np.random.default_rng(_SEED)
    pair = (resample(old, len(old), num, rng), resample(old, len(new), num, rng))
    seen = (old.sum(axis=0)[None], new.sum(axis=0)[None])
    effects = np.stack([t.effect(*seen) for t in tests], axis=1)
    by_chance = np.stack([t.effect(*pair) for t in tests], axis=1)
    chance = p_values(effects[0], by_chance)
    return holm(
        [
            t.finding(seen, float(effect), float(p))
            for t, effect, p in zip(tests, effects[0], chance, strict=True)
        ]
    )


@dataclass(frozen=True)
class _Test:
    """One quantity of one group, from sums over cells (R, F): R pairs of windows at once."""

    quantity: str
    of: str
    columns: Columns

    def effect(self, before: FloatArray, after: FloatArray) -> FloatArray:
        """(R,) size of the change; NaN where there is nothing to compare."""
        if self.quantity in (PROMPT, OUTPUT):
            return self._distance(before, after)
        old, new = self.value(before), self.value(after)
        if self.quantity == SHARING:
            return np.abs(new - old)
        with np.errstate(divide="ignore", invalid="ignore"):
            apart: FloatArray = np.maximum(new / old, old / new) - 1.0
        return apart

    def value(self, sums: FloatArray) -> FloatArray:
        """(R,) the quantity itself: a rate, a mean length or a share."""
        c = self.columns
        over, under = {
            RATE: (c.count, TIME),
            PROMPT: (c.tokens[0], c.count),
            OUTPUT: (c.tokens[1], c.count),
            SHARING: (c.shared, c.sharable),
        }[self.quantity]
        with np.errstate(divide="ignore", invalid="ignore"):
            value: FloatArray = sums[:, over] / sums[:, under]
        return value

    def _distance(self, before: FloatArray, after: FloatArray) -> FloatArray:
        """(R,) Wasserstein's distance over the mean before: the integral of |F - G|."""
        c, which = self.columns, int(self.quantity == OUTPUT)
        edges = (c.grid.prompt, c.grid.output)[which]
        with np.errstate(invalid="ignore"):
            shares = [
                np.cumsum(s[:, c.lengths[which]], axis=1)[:, :-1] / s[:, c.count, None]
                for s in (before, after)
            ]
            apart: FloatArray = np.abs(shares[1] - shares[0]) @ np.diff(edges)
            return apart / self.value(before)

    def finding(self, seen: tuple[FloatArray, FloatArray], effect: float, p: float) -> Finding:
        before, after = (float(self.value(sums)[0]) for sums in seen)
        least, unit = LEAST[self.quantity], _UNITS[self.quantity]
        return Finding(self.quantity, self.of, before, after, unit, effect, least, p)
