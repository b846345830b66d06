"""Why trials of a search were refused."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

from profiler.engines.base import Progress
from tuner.results import RunFolder
from tuner.search.database import load_trials

_MOST = 20
"""kinds of reasons that are listed"""


def refusals(folder: Path, *, progress: Progress) -> dict[str, Any]:
    """The refused trials, those with the same reason but for its numbers together.

    Returns
    -------
    `reasons`, most frequent first: trials, example (the reason of the first of them), number (of
    that trial) and settings. Raises `ResultsError` without a database.
    """
    progress(0, 1)
    refused = [t for t in load_trials(RunFolder(folder).database) if t.refused is not None]
    kinds = Counter(re.sub(r"\d+", "#", t.refused or "") for t in refused)
    first = {re.sub(r"\d+", "#", t.refused or ""): t for t in reversed(refused)}
    progress(1, 1)
    return {
        "reasons": [
            {
                "trials": count,
                "example": first[kind].refused,
                "number": first[kind].number,
                "settings": first[kind].settings,
            }
            for kind, count in kinds.most_common(_MOST)
        ]
    }
