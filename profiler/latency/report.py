"""Held-out error of the latency model, by region, and where it was not sampled.

Steps are split into folds by group (configuration), never by row: neighbouring steps of one run are
so alike that a split by rows would flatter every model. Each fold is predicted by a model whose
structure, coefficients and table were all chosen without it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from profiler.errors import LatencyModelError
from profiler.latency.fit import FEWEST_STEPS, NUM_FOLDS, fit_params, groups_of, usable_steps
from profiler.latency.region import SampledRegion, columns_of, regions_of
from profiler.latency.roofline import device_seconds, fold_of, relative_errors
from profiler.latency.step_time import REGION_NAMES, FloatArray
from profiler.steps import AFTER_DECODES, StepSamples

_SPLIT_SEED = 7919
"""added to the seed, so that the outer folds differ from those inside a fit"""


@dataclass(frozen=True)
class RegionError:
    """Error of one region. Errors are absolute and relative: |predicted / reference - 1|."""

    region: str
    """one of REGION_NAMES, or "all" """
    size: str
    """"all", or up to / above the region's median number of tokens"""
    num_steps: int
    median: float
    p95: float


@dataclass(frozen=True)
class HeldOutReport:
    """What `stallfree profile` prints. Filled by `held_out_report`."""

    rows: tuple[RegionError, ...]
    not_sampled: tuple[str, ...]
    """kinds of steps without any sample, and limits of what was sampled, in words"""
    sentinel_spread: float | None = None
    """(p95 - p5) / median of the sentinel's time in this profile; None without sentinels"""
    step_noise: float | None = None
    """median error that a perfect model would have on decode-only steps: see `step_noise_of`"""
    reference: str = "steps of held-out configurations"
    """what predictions were compared with"""

    @property
    def worst_median(self) -> float:
        """Greatest median error of a whole region."""
        return max(row.median for row in self.rows if row.size == "all")

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> HeldOutReport:
        """Inverse of `to_dict`. Raises KeyError or TypeError for other content."""
        return cls(
            rows=tuple(RegionError(**row) for row in data["rows"]),
            not_sampled=tuple(data["not_sampled"]),
            sentinel_spread=data["sentinel_spread"],
            step_noise=data["step_noise"],
            reference=str(data["reference"]),
        )


def held_out_predictions(steps: StepSamples, seed: int) -> FloatArray:
    """(S,) device seconds of usable steps, each predicted without its own group."""
    fold = fold_of(groups_of(steps), NUM_FOLDS, seed + _SPLIT_SEED)
    predicted = np.empty(steps.num_steps)
    for k in np.unique(fold):
        params, _ = fit_params(steps.select(fold != k), seed)
        predicted[fold == k] = device_seconds(params, columns_of(steps.select(fold == k)))
    return predicted


def held_out_report(
    samples: StepSamples, *, seed: int = 0, sentinel_spread: float | None = None
) -> HeldOutReport:
    """Held-out error by region of the model that `fit_step_time` makes of `samples`.

    Parameters
    ----------
    seed
        The same as for `fit_step_time`.
    sentinel_spread
        See `HeldOutReport.sentinel_spread`.

    Raises
    ------
    LatencyModelError
        Too few steps to hold some out.
    """
    steps = usable_steps(samples)
    if steps.num_steps < 2 * FEWEST_STEPS:
        raise LatencyModelError(
            f"a held-out error needs at least {2 * FEWEST_STEPS} steps, got {steps.num_steps}; "
            "profile for longer"
        )
    errors = relative_errors(held_out_predictions(steps, seed), steps.exec_s * steps.speed)
    return HeldOutReport(
        rows=tuple(region_errors(steps, errors)),
        not_sampled=limits_of(steps),
        sentinel_spread=sentinel_spread,
        step_noise=step_noise_of(steps),
    )


def step_noise_of(steps: StepSamples) -> float | None:
    """The machine's own spread from one step to the next of the same shape; None without such.

    The median of |log ratio| of consecutive decode-only steps of one run with equally many decodes,
    over sqrt(2): for independent noise, the median relative error of a model that is right.
    """
    decode = (steps.prefill_tokens == 0) & (steps.follows == AFTER_DECODES)
    alike = decode[1:] & decode[:-1]
    alike &= steps.configuration[1:] == steps.configuration[:-1]
    alike &= steps.num_decodes[1:] == steps.num_decodes[:-1]
    if not alike.any():
        return None
    ratio = np.log(steps.exec_s[1:] / steps.exec_s[:-1])[alike]
    return float(np.median(np.abs(ratio)) / np.sqrt(2.0))


def region_errors(steps: StepSamples, errors: FloatArray) -> Iterator[RegionError]:
    """Rows of the report from the relative error (S,) of each step."""
    kinds = regions_of(columns_of(steps))
    tokens = steps.prefill_tokens + steps.num_decodes
    everything = np.ones(steps.num_steps, dtype=np.bool_)
    yield _row("all", "all", errors, everything)
    for kind, name in enumerate(REGION_NAMES):
        mask = kinds == kind
        if not mask.any():
            continue
        middle = int(np.median(tokens[mask]))
        yield _row(name, "all", errors, mask)
        for size, part in (
            (f"up to {middle} tokens", mask & (tokens <= middle)),
            (f"above {middle} tokens", mask & (tokens > middle)),
        ):
            if part.any():
                yield _row(name, size, errors, part)


def _row(region: str, size: str, errors: FloatArray, mask: npt.NDArray[np.bool_]) -> RegionError:
    median, p95 = np.quantile(errors[mask], [0.5, 0.95])
    return RegionError(region, size, int(mask.sum()), float(median), float(p95))


def limits_of(steps: StepSamples) -> tuple[str, ...]:
    """Where the model was not sampled, in words."""
    region = SampledRegion.of(columns_of(steps))
    missing = [f"no {name} steps" for name in region.gaps()]
    return (
        *missing,
        f"more than {region.highest('prefill_tokens'):.0f} prompt tokens in a step",
        f"more than {region.highest('num_decodes'):.0f} decodes in a step",
        f"more than {region.highest('decode_depth'):.0f} tokens of context per decode",
    )
