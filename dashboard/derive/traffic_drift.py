"""Newer traffic against that of a run: what has drifted, and what that costs.

What a wrong file causes comes back as `error`, one line: see `dashboard.uploads.passing`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from dashboard.derive.traffic_shape import SIDES, cumulative, rate, tokens_of
from dashboard.uploads.convert import convert
from dashboard.uploads.passing import FILE
from profiler.engines.base import Progress
from profiler.errors import StallfreeError
from profiler.traffic.trace import Trace
from tuner.cli.after_tables import price_line
from tuner.drift.traffic import compare_traffic
from tuner.drift.watch import WatchOptions, new_study, new_traffic, watch
from tuner.results import RunFolder
from tuner.schema import Study
from tuner.search.kept import load_kept
from tuner.study import load_study

_OVERLAID_BINS = 60
"""of rates over each other, which more would hide"""


class Newer(NamedTuple):
    """The newer traffic."""

    path: str | None
    """of its file; None for `uploads.FILE` in the job's folder"""
    columns: str | None = None
    """which column means what, as `stallfree watch --map` has it"""
    changed: int = 0
    """when the file did, so that a result is not taken for that of an earlier one"""


def traffic_drift(folder: Path, run: str, newer: Newer, *, progress: Progress) -> dict[str, Any]:
    """What has drifted (`tuner.drift.traffic`), with distributions and rates of both.

    Parameters
    ----------
    folder
        Of the job.
    run
        Run folder that is compared with.
    progress
        Called with (parts done, 2).
    """
    try:
        kept = RunFolder(Path(run))
        study = load_study(kept.study_file, kept.base)
        after = read_newer(study, folder, newer)
        progress(1, 2)
        before = Trace.load(kept.trace)
        found = compare_traffic(before, after).to_dict()
    except StallfreeError as error:
        return {"error": str(error)}
    pair = {"before": before, "after": after}
    return found | {
        "lengths": {
            side: {name: cumulative(tokens_of(t, side)) for name, t in pair.items()}
            for side in SIDES
        },
        "rates": {name: rate(t, _OVERLAID_BINS) for name, t in pair.items()},
        "requests": {name: t.num_requests for name, t in pair.items()},
    }


def drift_price(folder: Path, run: str, newer: Newer, *, progress: Progress) -> dict[str, Any]:
    """What `stallfree watch` says of the run's configuration on the newer traffic (`Watched`), and
    its price in one line (`line`). For a run of one engine; arguments as `traffic_drift`."""
    try:
        kept = load_kept(Path(run), RunFolder(Path(run)))
        trace = read_newer(kept.study, folder, newer)
        found = watch(kept, trace, WatchOptions(), _Ui(progress))
    except StallfreeError as error:
        return {"error": str(error)}
    return found.to_dict() | {"line": price_line(found)}


class _Ui:
    """Passes progress on and says nothing."""

    def __init__(self, progress: Progress) -> None:
        self.report = progress

    def stage(self, text: str) -> None:
        del text

    @contextmanager
    def progress(self, text: str) -> Iterator[Progress]:
        del text
        yield self.report


def read_newer(study: Study, folder: Path, newer: Newer) -> Trace:
    """The newer traffic with what the study does to its own (`tuner.drift.watch`). Raises
    `TraceError` and `StudyError`."""
    if newer.path is not None:
        return new_traffic(new_study(study, Path(newer.path), None))
    made = folder / "trace.parquet"
    convert(folder / FILE, made, newer.columns)
    return new_traffic(new_study(study, made, None))
