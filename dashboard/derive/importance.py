"""Which settings decide each figure of a search, by a random forest on its trials.

A forest learns a figure from the settings. How much of its skill on trials that it has not seen is
lost when the values of one setting are shuffled among them is the importance of that setting
(Breiman, "Random Forests", Machine Learning 45, 2001; scikit-learn's `permutation_importance`).
Skill is R^2: 1 is a perfect prediction, 0 no better than the mean. Latencies are taken as
logarithms. A search samples good regions more densely, and the answer is for what it sampled.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.ensemble import RandomForestRegressor
from sklearn.inspection import permutation_importance
from sklearn.model_selection import KFold

from dashboard import tables
from profiler.engines.base import Progress
from tuner.results import RunFolder

FEWEST_TRIALS = 20
_MOST_TRIALS = 1500
"""a forest learns no more from more, and takes longer"""
_FOLDS, _TREES, _SHUFFLES = 5, 60, 5
_ABSENT = -1.0
"""code of a setting that a trial does not have, such as that of a pool; below every value"""


def importance(folder: Path, *, progress: Progress) -> dict[str, Any]:
    """Importance of each varied setting for each of `tables.FIGURES`.

    Returns
    -------
    `trials`, how many were learned from; `settings`, names; `figures`, per figure: `skill` (R^2 on
    unseen trials, mean over the folds) and `shares` (loss of R^2 per setting, mean and standard
    deviation over folds and shuffles), None where the figure does not vary. With fewer than
    `FEWEST_TRIALS` trials `figures` is empty.
    """
    frame = tables.trials(RunFolder(folder).load_results())
    frame = frame[frame[list(tables.FIGURES)].notna().all(axis=1)]
    names = tables.setting_columns(frame)
    found: dict[str, Any] = {
        "trials": len(frame),
        "settings": [name.removeprefix(tables.SETTING) for name in names],
        "figures": {},
    }
    if len(frame) < FEWEST_TRIALS or not names:
        return found
    if len(frame) > _MOST_TRIALS:
        frame = frame.sample(_MOST_TRIALS, random_state=0)
        found["trials"] = _MOST_TRIALS
    codes = np.column_stack([tables.coded(frame[name])[0] for name in names])
    codes = np.where(np.isnan(codes), _ABSENT, codes)
    for done, name in enumerate(tables.FIGURES):
        progress(done, len(tables.FIGURES))
        values = frame[name].to_numpy(dtype=np.float64)
        if name != "goodput_rps":
            values = np.log(np.maximum(values, 1e-9))
        found["figures"][name] = _learned(codes, values)
    progress(len(tables.FIGURES), len(tables.FIGURES))
    return found


def _learned(
    codes: npt.NDArray[np.float64], values: npt.NDArray[np.float64]
) -> dict[str, Any] | None:
    """`importance` of one figure: (N, K) settings, (N,) values."""
    if np.ptp(values) == 0:
        return None
    skills, losses = [], []
    for known, unseen in KFold(_FOLDS, shuffle=True, random_state=0).split(codes):
        forest = RandomForestRegressor(_TREES, min_samples_leaf=2, random_state=0)
        forest.fit(codes[known], values[known])
        skills.append(forest.score(codes[unseen], values[unseen]))
        shuffled = permutation_importance(
            forest, codes[unseen], values[unseen], n_repeats=_SHUFFLES, random_state=0
        )
        losses.append(shuffled.importances)
    every = np.concatenate(losses, axis=1)
    return {
        "skill": float(np.mean(skills)),
        "shares": [
            {"mean": float(mean), "std": float(std)}
            for mean, std in zip(every.mean(axis=1), every.std(axis=1), strict=True)
        ],
    }
