"""What `stallfree watch` does with its options."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from profiler.errors import StudyError
from tuner.drift.retune import Retune, next_folder, retune
from tuner.drift.scrape import Scrape, parse_scrape, read_metrics, read_version
from tuner.drift.watch import Watched
from tuner.export.bundle import emit_bundle
from tuner.results import RunFolder
from tuner.schema import Study
from tuner.search.kept import KeptRun
from tuner.search.progress import Ui
from tuner.search.stages import StartEngine


def column_map(text: str | None) -> dict[str, str] | None:
    """`arrival=..,prompt=..` as the study file has it. Raises `StudyError`."""
    if text is None:
        return None
    parts = [part.partition("=") for part in text.split(",")]
    if not all(name.strip() and value.strip() for name, _, value in parts):
        raise StudyError(f"--map needs NAME=COLUMN,..; got {text!r}")
    return {name.strip(): value.strip() for name, _, value in parts}


def read_scrapes(sources: Sequence[str]) -> Scrape | None:
    """One scrape as it is, or what lies between two; None for none. Raises `InputError`."""
    if len(sources) > 2:
        raise StudyError(f"--metrics is given once or twice, got {len(sources)} times")
    scrapes = [parse_scrape(read_metrics(source), source) for source in sources]
    if not scrapes:
        return None
    return scrapes[0] if len(scrapes) == 1 else scrapes[1].since(scrapes[0])


def read_version_of(sources: Sequence[str]) -> str | None:
    """What the latest metrics address tells of its version; None where it does not."""
    return read_version(sources[-1]) if sources else None


def start_retune(
    run: KeptRun, study: Study, found: Watched, out: Path | None, ui: Ui, start: StartEngine
) -> Path:
    """Tune again and export; the new run folder."""
    folder = next_folder(run.folder) if out is None else RunFolder(out)
    ui.stage(f"tuning again in {folder.path}")
    plan = Retune(folder, found.profile_again)
    results = retune(run, study, plan, ui, start)
    if refusal := emit_bundle(folder, results, study.export.target):
        ui.stage(f"no bundle: {refusal}")
    return folder.path
