"""Committed exports of every target, and one whole bundle; `python -m
tests.tuner.export.test_golden_exports` writes them anew."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from tests.tuner.conftest import finished_by_hand
from tests.tuner.export.fleets import FLEETS, rendered
from tuner.export.bundle import BundleOptions, bundle
from tuner.export.emit import emit
from tuner.export.rollback import read_current
from tuner.export.targets import TARGETS

GOLDEN = Path(__file__).parent / "golden"
CURRENT = Path(__file__).parent / "current.yaml"
CASES = [(target, fleet) for target in TARGETS for fleet in FLEETS]
PROVENANCE = {
    "engine": {"engine": "vllm", "version": "0.32.0", "device": "cpu"},
    "stallfree_version": "0.1.0",
    "commit": "0123456789ab",
    "host": "a-host",
    "date": "2026-01-02T03:04:05+00:00",
    "seed": 1,
}
HELD_OUT = {
    "rows": [{"region": "decode-only", "size": "all", "median": 0.031, "p90": 0.08}],
    "reference": "steps of held-out configurations",
}


def files_of(target: str, fleet: str) -> dict[str, str]:
    made = rendered(target, fleet)
    return {**made.files, "settings-report.txt": made.text()}


def whole_bundle() -> dict[str, str]:
    """All but `evidence.json`, whose many digits are the platform's."""
    run = finished_by_hand()
    provenance = run.provenance | PROVENANCE
    options = BundleOptions("vllm", current=read_current(CURRENT))
    files = bundle(replace(run, provenance=provenance), options, HELD_OUT)
    return {name: text for name, text in files.items() if name != "evidence.json"}


def committed(folder: Path) -> dict[str, str]:
    paths = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_text() for path in paths}


@pytest.mark.parametrize(("target", "fleet"), CASES)
def test_export_is_as_committed(target: str, fleet: str) -> None:
    assert files_of(target, fleet) == committed(GOLDEN / target / fleet)


def test_bundle_is_as_committed() -> None:
    assert whole_bundle() == committed(GOLDEN / "bundle")


if __name__ == "__main__":
    shutil.rmtree(GOLDEN, ignore_errors=True)
    for one, other in CASES:
        emit(files_of(one, other), GOLDEN / one / other)
    emit(whole_bundle(), GOLDEN / "bundle")
