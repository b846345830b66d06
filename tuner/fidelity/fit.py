"""Constants per GPU and model, fitted on one half of the rows."""

from __future__ import annotations

import json
import multiprocessing
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import minimize

from profiler.engines.base import Progress
from profiler.engines.silicon.fitted import POOLED, Constants, constants_key
from profiler.engines.silicon.spec import SiliconSpec, Terms
from tuner.fidelity.engines import Engine
from tuner.fidelity.predict import Predictor
from tuner.fidelity.rows import Row
from tuner.fidelity.servers import spec_of

Fitted = dict[str, dict[str, Constants]]
"""GPU system -> `constants_key`, or POOLED -> constants"""
START = Constants(chunk_factor=1.0, decode_factor=1.0, launch_per_layer_s=0.3e-3)
_BOUNDS = ((0.6, 2.0), (0.5, 2.0), (0.0, 4.0))
"""of the two factors and of the launch time, milliseconds"""
_FEWEST = 4
"""rows that three constants are fitted to"""


def fit_constants(
    rows: Sequence[Row],
    engines: dict[SiliconSpec, Engine],
    workers: int,
    progress: Progress | None = None,
) -> Fitted:
    """The constants of every GPU, model and format with at least `_FEWEST` of `rows`."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row.system, key_of(row)), []).append(row)
        if row.dense:
            groups.setdefault((row.system, POOLED), []).append(row)
    fitted: Fitted = {}
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=context) as pool:
        jobs = {
            pool.submit(fit_group, own, {spec_of(r): engines[spec_of(r)] for r in own}): key
            for key, own in sorted(groups.items(), key=lambda item: -len(item[1]))
            if len(own) >= _FEWEST
        }
        for done, job in enumerate(as_completed(jobs), start=1):
            system, key = jobs[job]
            fitted.setdefault(system, {})[key] = job.result()
            if progress:
                progress(done, len(jobs))
    return fitted


def key_of(row: Row) -> str:
    """Key of the constants of `row` among those of its GPU."""
    spec = spec_of(row)
    return constants_key(spec.model, spec.weight_dtype)


def fit_group(rows: Sequence[Row], engines: dict[SiliconSpec, Engine]) -> Constants:
    """The constants that minimise the mean of |log(predicted / measured)| of TTFT and TPOT, by the
    simplex method of Nelder and Mead (The Computer Journal 7(4), 1965)."""

    def loss(x: Any) -> float:
        predictor = Predictor(engines, lambda row: _constants(x).over(Terms()))
        off = 0.0
        for row in rows:
            found = predictor.predict(row)
            off += abs(np.log(found.ttft_s / row.ttft_s)) + abs(np.log(found.tpot_s / row.tpot_s))
        return float(off / len(rows))

    start = np.array([START.chunk_factor, START.decode_factor, START.launch_per_layer_s * 1e3])
    simplex = np.vstack([start, start + np.diag([0.3, 0.2, 0.6])])
    options = {"initial_simplex": simplex, "xatol": 0.01, "fatol": 0.001, "maxfev": 90}
    return _constants(
        minimize(loss, start, method="Nelder-Mead", bounds=_BOUNDS, options=options).x
    )


def _constants(x: Any) -> Constants:
    chunk, decode, launch_ms = (round(float(value), 3) for value in x)
    return Constants(chunk, decode, round(launch_ms * 1e-3, 6))


def terms_by(fitted: Fitted) -> Callable[[Row], Terms]:
    """Terms with the constants of a row's model on its GPU, else of dense models on it."""

    def terms_of(row: Row) -> Terms:
        models = fitted.get(row.system, {})
        found = models.get(key_of(row)) or models.get(POOLED)
        return found.over(Terms()) if found else Terms()

    return terms_of


def save_fitted(halves: tuple[Fitted, Fitted], provenance: dict[str, Any], path: Path) -> None:
    """Write what `load_fitted` reads: the constants of half 0, and those of half 1 beside them."""
    content = {
        "provenance": provenance,
        "systems": _plain(halves[0]),
        "reverse": _plain(halves[1]),
    }
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def _plain(fitted: Fitted) -> dict[str, dict[str, dict[str, float]]]:
    return {
        system: {name: asdict(found) for name, found in sorted(models.items())}
        for system, models in sorted(fitted.items())
    }
