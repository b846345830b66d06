"""The kernels' disk cache follows the content of every kernel source."""

from __future__ import annotations

from pathlib import Path

import pytest

from profiler import compiled


def test_any_changed_kernel_source_moves_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiled, "_ROOT", tmp_path)
    simulator = tmp_path / "tuner" / "simulator"
    simulator.mkdir(parents=True)
    (simulator / "kernel.py").write_text("from tuner.simulator.helper import one\n")
    (simulator / "helper.py").write_text("one = 1\n")

    def digest() -> str:
        compiled.kernel_digest.cache_clear()
        return compiled.kernel_digest()

    before = digest()
    assert digest() == before
    (simulator / "helper.py").write_text("one = 2\n")
    changed = digest()
    compiled.kernel_digest.cache_clear()
    assert changed != before


def test_every_kernel_source_is_part_of_the_digest() -> None:
    """A file that uses the decorator and is not hashed would keep stale machine code."""
    root = Path(compiled.__file__).resolve().parent.parent
    hashed = {p for pattern in compiled._KERNEL_SOURCES for p in root.glob(pattern)}
    users = {
        path
        for package in ("profiler", "tuner")
        for path in (root / package).rglob("*.py")
        if any(f"\n@{decorator}\n" in path.read_text() for decorator in ("compiled", "inner"))
    }
    assert users
    assert users <= hashed
