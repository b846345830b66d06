"""Settings of one-core engines and of their KV connector; the file it records transfers in."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from profiler.engines import one_core
from profiler.engines.base import EngineSpec
from profiler.engines.one_core import DECODE, nixl_spec, one_core_spec
from profiler.engines.transfer_file import LOAD, WIRE, TransferFile
from profiler.errors import MissingExtraError

SPEC = EngineSpec("vllm", "model", engine_args={"enforce_eager": False}, environment={"A": "b"})


def test_a_one_core_engine_computes_in_one_thread() -> None:
    made = one_core_spec(SPEC)
    assert made.engine_args == {"distributed_executor_backend": "uni", "enforce_eager": False}
    assert made.environment["OMP_NUM_THREADS"] == "1"
    assert made.environment["VLLM_CPU_OMP_THREADS_BIND"] == "nobind"
    assert made.environment["A"] == "b"
    assert one_core_spec(made).environment == made.environment


def test_a_missing_nixl_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(one_core, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"install stallfree\[nixl\]"):
        nixl_spec(SPEC, DECODE, 5600, Path("transfers"))


def test_the_connector_is_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(one_core, "find_spec", lambda name: object())
    made = nixl_spec(SPEC, DECODE, 5600, Path("transfers"))
    transfer = made.engine_args["kv_transfer_config"]
    assert transfer["kv_connector_module_path"] == "profiler.engines.vllm.cpu_nixl"
    assert transfer["kv_role"] == "kv_consumer"
    assert made.environment["VLLM_NIXL_SIDE_CHANNEL_PORT"] == "5600"
    assert made.environment["STALLFREE_TRANSFERS"] == "transfers"


def test_transfers_are_read_as_they_come(tmp_path: Path) -> None:
    path = tmp_path / "transfers"
    file = TransferFile(path)
    assert file.take().start_s.size == 0
    rows = np.array([[WIRE, 0.002, 0.001, 4096], [LOAD, 10.0, 10.5, 33], [LOAD, 11.0, 11.1, 7]])
    whole = rows.tobytes()
    path.write_bytes(whole[:-8])  # the last row is torn
    seen = file.take()
    assert seen.start_s.tolist() == [10.0]
    assert seen.end_s.tolist() == [10.5]
    assert seen.tokens.tolist() == [33.0]
    assert (seen.wire_s[0], seen.post_s[0], seen.wire_bytes[0]) == (0.002, 0.001, 4096)
    path.write_bytes(whole)
    assert file.take().end_s.tolist() == [11.1]
    assert file.take().wire_s.size == 0
