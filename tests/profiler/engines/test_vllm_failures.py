"""What goes wrong with a real vLLM, and that nothing of it is left running."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import psutil
import pytest

from profiler.engine_config import EngineConfig
from profiler.engines import start_engine
from profiler.engines.base import EngineSpec, Requests
from profiler.engines.vllm.driver import VllmEngine
from profiler.engines.vllm.session import session_members
from profiler.errors import EngineDiedError, EngineHungError, EngineStartError

pytestmark = pytest.mark.engine

MODEL = Path(__file__).parents[3] / "studies/models/tiny-llama"
SPEC = EngineSpec(
    "vllm",
    str(MODEL),
    EngineConfig(max_num_batched_tokens=256, max_num_seqs=8),
    load_format="dummy",
    dtype="float32",
    engine_args={"enforce_eager": True},
)
LONG = Requests(np.arange(40) * 0.1, np.full(40, 50), np.full(40, 400))


@pytest.fixture(autouse=True)
def short_temporary_folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Where engines keep their logs; the paths of sockets in it must stay under 108 letters."""
    with tempfile.TemporaryDirectory(prefix="sf-") as folder:
        monkeypatch.setattr(tempfile, "tempdir", folder)
        monkeypatch.setenv("TMPDIR", folder)
        yield


def start() -> VllmEngine:
    engine = start_engine(SPEC)
    assert isinstance(engine, VllmEngine)
    return engine


def member(session: int, title: str) -> psutil.Process:
    """The engine process whose title holds `title`."""
    (found,) = [p for p in session_members(session) if title in " ".join(p.cmdline())]
    return found


def test_a_refused_setting_is_named() -> None:
    config = replace(SPEC.config, long_prefill_token_threshold=20_000)
    with pytest.raises(EngineStartError) as caught:
        start_engine(replace(SPEC, config=config))
    message = str(caught.value)
    assert "\n" not in message
    assert "long_prefill_token_threshold (20000)" in message  # vLLM's own rule
    assert "max_num_batched_tokens=256" in message  # the settings that were tried
    assert "log: " in message
    log = Path(message.rsplit("log: ", 1)[1])
    assert "Traceback" in log.read_text(errors="replace")  # kept for the user
    assert list(log.parent.iterdir()) == [log]  # and nothing else is
    assert "last lines of the engine's log" in "\n".join(caught.value.__notes__)


def test_a_start_that_takes_too_long_is_given_up() -> None:
    before = {p.pid for p in psutil.process_iter()}
    with pytest.raises(EngineStartError, match="not ready within start_timeout_s = 1 s"):
        start_engine(replace(SPEC, start_timeout_s=1.0))
    mine = [p for p in psutil.Process().children(recursive=True) if p.pid not in before]
    assert mine == []


@pytest.mark.parametrize(
    ("title", "reason"),
    [
        ("EngineCore", "engine core exited unexpectedly"),
        ("VLLM::Worker", "Worker proc .* died unexpectedly"),
        ("profiler.engines.vllm.server", "server process ended, code -9"),
    ],
)
def test_a_killed_process_is_reported(title: str, reason: str) -> None:
    with start() as engine:
        victim = member(engine.session, title)

        def kill(done: int, total: int) -> None:
            if victim.is_running():
                victim.kill()

        with pytest.raises(
            EngineDiedError, match=f"in the middle of a replay: .*{reason}"
        ) as caught:
            engine.replay(LONG, deadline_s=60.0, progress=kill)
        assert "\n" not in str(caught.value)
        assert session_members(engine.session) == []
        with pytest.raises(EngineDiedError, match="was stopped"):
            engine.replay(LONG)


def test_a_hung_engine_is_given_up_after_the_deadline() -> None:
    with start() as engine:
        core = member(engine.session, "EngineCore")

        def hang(done: int, total: int) -> None:
            if core.is_running():
                core.suspend()

        with pytest.raises(EngineHungError, match=r"no token for \d+\.\d s \(deadline_s = 2\)"):
            engine.replay(LONG, deadline_s=2.0, progress=hang)
        assert session_members(engine.session) == []


PARENT = """
import numpy as np, sys
from profiler.engine_config import EngineConfig
from profiler.engines import start_engine
from profiler.engines.base import EngineSpec, Requests
spec = EngineSpec("vllm", sys.argv[1], load_format="dummy", dtype="float32",
                  engine_args={"enforce_eager": True})
engine = start_engine(spec)
print(engine.session, flush=True)
engine.replay(Requests(np.zeros(8), np.full(8, 50), np.full(8, 5000)))
"""


def test_nothing_outlives_a_killed_parent() -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, str(MODEL)], stdout=subprocess.PIPE, text=True
    )
    with parent:
        assert parent.stdout is not None
        session = int(parent.stdout.readline())
        assert len(session_members(session)) >= 3
        os.kill(parent.pid, signal.SIGKILL)
    deadline = time.monotonic() + 15.0
    while session_members(session) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert session_members(session) == []
