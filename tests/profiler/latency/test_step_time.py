"""The compiled step-latency model against its slow twin, and against itself uncompiled."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from slow_step_time import (
    random_batch,
    random_params,
    random_tables,
    slow_step_time,
    slow_tabulated_time,
)

from profiler.latency.params import StepTables, plain_params
from profiler.latency.step_time import (
    BatchColumns,
    BatchShape,
    fill_times,
    step_interval,
    step_time,
)
from profiler.steps import AFTER_DECODES

_HERE = Path(__file__).resolve().parent


@pytest.mark.parametrize("with_table", [False, True])
def test_equals_the_slow_twin_on_random_batches(with_table: bool) -> None:
    rng = np.random.default_rng(11)
    for _ in range(300):
        params, batch = random_params(rng, with_table=with_table), random_batch(rng)
        assert step_time(params, batch) == pytest.approx(slow_step_time(params, batch), rel=1e-12)


def test_equals_the_slow_twin_where_times_are_tabulated() -> None:
    rng = np.random.default_rng(12)
    for _ in range(300):
        tables, batch = random_tables(rng), random_batch(rng)
        params = plain_params(constant_s=9.0)._replace(tables=tables)
        expected = slow_tabulated_time(tables, batch)
        assert step_time(params, batch) == pytest.approx(expected, rel=1e-12)


def test_tables_go_on_along_their_last_cell() -> None:
    nodes = np.array([1, 16, 81, 256])
    grids = np.zeros((4, 5, 4))
    grids[:, 4, :] = 1.0
    grids[0, :4, :] = nodes[:, None] * nodes * 1e-6
    tables = StepTables(np.array([0.0, 1.0, 3.0]), np.zeros(3), grids)
    params = plain_params()._replace(tables=tables)
    batch = BatchShape(0, 0, 0.0, 0, 512, 512 * 810, AFTER_DECODES)
    assert step_time(params, batch) == pytest.approx(3.0 + 510 * 2.0 + 512 * 810 * 1e-6)


def test_host_time_is_added_or_hidden() -> None:
    params = plain_params(constant_s=5e-3, host_s=1e-3, host_per_running_s=1e-4)
    batch = BatchShape(0, 0, 0.0, 0, 10, 1000, AFTER_DECODES)
    assert step_interval(params, batch, 10, False) == pytest.approx(7e-3)
    assert step_interval(params, batch, 10, True) == 5e-3
    assert step_interval(params, batch, 90, True) == pytest.approx(10e-3)


def test_a_floor_holds_and_a_factor_is_never_extrapolated() -> None:
    table = np.ones((3, 9, 8))
    table[0, 7, :8] = 1.5
    table[:, 8, :] = 0.0
    table[:, 8, [1, 3]] = 1.0
    params = plain_params(floor_s=2e-3)._replace(table=table)
    assert step_time(
        params, BatchShape(0, 0, 0.0, 0, 10_000, 10_000, AFTER_DECODES)
    ) == pytest.approx(3e-3)
    assert step_time(params, BatchShape(0, 0, 0.0, 0, 1, 1, AFTER_DECODES)) == pytest.approx(2e-3)


def times_of_random_batches() -> bytes:
    """Device and interval seconds of 200 random batches, with and without a table."""
    rng = np.random.default_rng(5)
    text = [random_batch(rng)[:-1] for _ in range(200)]
    columns = BatchColumns(*(np.array(c) for c in zip(*text, strict=True)))
    out = np.empty((200, 2))
    done = b""
    for with_table in (False, True):
        params = random_params(rng, with_table=with_table)
        fill_times(params, columns, columns.num_decodes, False, out)
        done += out.tobytes()
    params = plain_params()._replace(tables=random_tables(rng))
    fill_times(params, columns, columns.num_decodes, True, out)
    return done + out.tobytes()


def test_same_bytes_without_compiling() -> None:
    """Nor does the plain form import numba; a rehearsed vLLM's worker may not hold it."""
    code = (
        "import sys, test_step_time as t; sys.stdout.buffer.write(t.times_of_random_batches()); "
        "sys.exit('numba' in sys.modules)"
    )
    plain = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTHONPATH": str(_HERE)},
        capture_output=True,
        check=True,
    )
    assert plain.stdout == times_of_random_batches()
