"""`EngineConfig`: settings of one engine, and the rules of the knob table applied to them."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields, replace
from difflib import get_close_matches
from typing import Any

from profiler.errors import KnobError
from profiler.knobs import KNOBS, Knob


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
    disable_chunked_mm_input: bool | None = None

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

    def with_default_seqs(self, given: EngineConfig) -> EngineConfig:
        """These settings, with `max_num_seqs` at most the token budget unless `given` says it.

        As vLLM's server resolves its default (`vllm/engine/arg_utils.py`,
        `EngineArgs._set_default_max_num_seqs_and_batched_tokens_args`).
        """
        budget, seqs = self.max_num_batched_tokens, self.max_num_seqs
        if given.max_num_seqs is not None or budget is None or seqs is None:
            return self
        return replace(self, max_num_seqs=min(seqs, budget))

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
