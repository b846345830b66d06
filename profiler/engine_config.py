"""`EngineConfig` and the knob table: the one place that knows an engine's settings.

Search space, driver, exporters, simulator, dashboard and README read this table. Meanings and
ranges: vLLM 0.32.0, `vllm/config/scheduler.py`, `vllm/config/cache.py`, `vllm/engine/arg_utils.py`.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Literal

from profiler.errors import KnobError

Kind = Literal["int", "float", "bool", "choice"]


@dataclass(frozen=True)
class Knob:
    """One setting of an engine.

    `low` and `high` are inclusive; None means no bound. `default` is in words, because it depends
    on the device and on how the engine is used.
    """

    name: str
    kind: Kind
    unit: str
    low: float | None
    high: float | None
    default: str
    flag: str
    versions: str
    meaning: str
    searchable: bool = False
    choices: tuple[str, ...] = ()


_V = ">=0.32,<0.33"

KNOBS: dict[str, Knob] = {
    k.name: k
    for k in (
        Knob(
            "max_num_batched_tokens",
            "int",
            "tokens/step",
            1,
            None,
            "by device and use: CPU server 2048, H100/H200 server 8192, >=160 GiB 16384",
            "--max-num-batched-tokens",
            ">=0.6",
            "token budget: most tokens one step may process",
            searchable=True,
        ),
        Knob(
            "max_num_scheduled_tokens",
            "int",
            "tokens/step",
            1,
            None,
            "same as max_num_batched_tokens",
            "--max-num-scheduled-tokens",
            _V,
            "second token budget: lowers the step without changing buffers or graphs",
            searchable=True,
        ),
        Knob(
            "max_num_seqs",
            "int",
            "requests",
            1,
            None,
            "by device and use: CPU server 128, H100/H200 1024, other GPUs 256",
            "--max-num-seqs",
            ">=0.6",
            "most running requests",
            searchable=True,
        ),
        Knob(
            "max_num_active_seqs",
            "int",
            "requests",
            1,
            None,
            "same as max_num_seqs",
            "--max-num-active-seqs",
            _V,
            "most running requests at admission, without changing buffers or graphs",
            searchable=True,
        ),
        Knob(
            "long_prefill_token_threshold",
            "int",
            "tokens/step",
            0,
            None,
            "0 = off",
            "--long-prefill-token-threshold",
            ">=0.8",
            "long-prefill cap: most tokens one request may get in a step while others are present",
            searchable=True,
        ),
        Knob(
            "long_prefill_token_threshold_adaptive",
            "bool",
            "",
            None,
            None,
            "false",
            "--long-prefill-token-threshold-adaptive",
            _V,
            "raise the cap to token budget / requests when few requests are present",
            searchable=True,
        ),
        Knob(
            "scheduler_reserve_full_isl",
            "bool",
            "",
            None,
            None,
            "true",
            "--scheduler-reserve-full-isl",
            _V,
            "admit a request only when blocks for its whole known sequence are free",
            searchable=True,
        ),
        Knob(
            "enable_chunked_prefill",
            "bool",
            "",
            None,
            None,
            "true for generative decoder models",
            "--enable-chunked-prefill",
            ">=0.6",
            "split prompts over steps; off stops admission at a prompt that does not fit the step",
        ),
        Knob(
            "watermark",
            "float",
            "fraction of blocks",
            0.0,
            0.999,
            "0.0",
            "--watermark",
            _V,
            "blocks that stay free after an admission while others run",
        ),
        Knob(
            "scheduling_policy",
            "choice",
            "",
            None,
            None,
            "fcfs",
            "--scheduling-policy",
            ">=0.8",
            "order of the waiting queue",
            choices=("fcfs", "priority"),
        ),
        Knob(
            "enable_prefix_caching",
            "bool",
            "",
            None,
            None,
            "true for generative decoder models",
            "--enable-prefix-caching",
            ">=0.8",
            "reuse KV blocks of equal prompt prefixes",
        ),
        Knob(
            "async_scheduling",
            "bool",
            "",
            None,
            None,
            "true where compatible; always false on CPU",
            "--async-scheduling",
            ">=0.10",
            "schedule the next step while the device runs this one",
        ),
        Knob(
            "max_model_len",
            "int",
            "tokens",
            1,
            None,
            "from the model",
            "--max-model-len",
            ">=0.6",
            "most tokens of prompt and output together",
        ),
        Knob(
            "block_size",
            "int",
            "tokens/block",
            1,
            None,
            "16 on CUDA, 128 on CPU",
            "--block-size",
            ">=0.6",
            "KV granularity",
        ),
        Knob(
            "num_gpu_blocks_override",
            "int",
            "blocks",
            2,
            None,
            "from free memory",
            "--num-gpu-blocks-override",
            ">=0.6",
            "number of KV blocks; one of them is the null block",
        ),
    )
}


@dataclass(frozen=True)
class EngineConfig:
    """Settings of one engine; None leaves a setting to the engine's own default."""

    max_num_batched_tokens: int | None = None
    max_num_scheduled_tokens: int | None = None
    max_num_seqs: int | None = None
    max_num_active_seqs: int | None = None
    long_prefill_token_threshold: int | None = None
    long_prefill_token_threshold_adaptive: bool | None = None
    scheduler_reserve_full_isl: bool | None = None
    enable_chunked_prefill: bool | None = None
    watermark: float | None = None
    scheduling_policy: str | None = None
    enable_prefix_caching: bool | None = None
    async_scheduling: bool | None = None
    max_model_len: int | None = None
    block_size: int | None = None
    num_gpu_blocks_override: int | None = None

    @classmethod
    def from_settings(cls, settings: dict[str, Any]) -> EngineConfig:
        """Checked settings. Raises `KnobError` for an unknown name, a wrong type or a bad value."""
        return cls(**{name: check_value(name, value) for name, value in settings.items()})

    def settings(self) -> dict[str, Any]:
        """The settings that are given, without the Nones."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    def over(self, defaults: EngineConfig) -> EngineConfig:
        """These settings where given, else those of `defaults`."""
        return replace(defaults, **self.settings())

    def check(self) -> None:
        """Raise `KnobError` when two settings clash, as the engine would at start."""
        for low, high, why in _ORDERED:
            a, b = getattr(self, low), getattr(self, high)
            if a is not None and b is not None and a > b:
                raise KnobError(
                    f"{low} must be at most {high} ({why}), got {low}={a} and {high}={b}; "
                    f"lower {low} or raise {high}"
                )
        budget, length = self.max_num_batched_tokens, self.max_model_len
        if self.enable_chunked_prefill is False and budget and length and budget < length:
            raise KnobError(
                "max_num_batched_tokens must be at least max_model_len when "
                f"enable_chunked_prefill is false, got {budget} and {length}; raise the budget "
                "or leave chunking on"
            )


_ORDERED = (
    ("max_num_seqs", "max_num_batched_tokens", "every running request needs a token per step"),
    ("max_num_active_seqs", "max_num_seqs", "it is a part of the running requests"),
    ("long_prefill_token_threshold", "max_model_len", "no prompt is longer"),
)


def knob(name: str) -> Knob:
    """The knob called `name`. Raises `KnobError` naming the nearest known one."""
    if name not in KNOBS:
        from difflib import get_close_matches

        near = get_close_matches(name, KNOBS, n=1)
        hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(KNOBS)}"
        raise KnobError(f"unknown engine setting {name!r}; {hint}")
    return KNOBS[name]


def check_value(name: str, value: Any) -> Any:
    """`value` if it is legal for the knob `name`. Raises `KnobError` otherwise."""
    k = knob(name)
    if value is None:
        return None
    good = {
        "int": isinstance(value, int) and not isinstance(value, bool),
        "float": isinstance(value, int | float) and not isinstance(value, bool),
        "bool": isinstance(value, bool),
        "choice": value in k.choices,
    }[k.kind]
    if not good:
        wanted = f"one of {', '.join(k.choices)}" if k.kind == "choice" else k.kind
        raise KnobError(f"{name} must be {wanted}, got {value!r}")
    outside = (k.low is not None and value < k.low) or (k.high is not None and value > k.high)
    if outside:
        raise KnobError(f"{name} must be in [{k.low}, {k.high}] {k.unit}, got {value}")
    return value


def parse_value(name: str, text: str) -> Any:
    """A setting from the command line, `text`, as the knob's type. Raises `KnobError`."""
    k = knob(name)
    lowered = text.strip().lower()
    try:
        if k.kind == "int":
            return check_value(name, int(lowered))
        if k.kind == "float":
            return check_value(name, float(lowered))
    except ValueError as error:
        raise KnobError(f"{name} must be {k.kind}, got {text!r}") from error
    if k.kind == "bool":
        if lowered not in ("true", "false"):
            raise KnobError(f"{name} must be true or false, got {text!r}")
        return lowered == "true"
    return check_value(name, lowered)


assert {f.name for f in fields(EngineConfig)} == set(KNOBS)
