"""The kernels give the same bytes compiled, with bounds checked, and as plain Python."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from digest_cases import digest

HERE = Path(__file__).parent


@pytest.mark.parametrize(
    ("variable", "cases", "fleets"),
    [("NUMBA_DISABLE_JIT", 40, 6), ("NUMBA_BOUNDSCHECK", 150, 0)],
)
def test_same_bytes(variable: str, cases: int, fleets: int, tmp_path: Path) -> None:
    environment = os.environ | {variable: "1", "STALLFREE_CACHE": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "digest_cases.py", str(cases), str(fleets)],
        cwd=HERE,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == digest(cases, fleets)
