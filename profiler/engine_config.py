"""`EngineConfig`: settings of one engine, and the rules of the knob table applied to them."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields, replace
from difflib import get_close_matches
from typing import Any, NamedTuple

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
    num_speculative_tokens: int | None = None
    speculative_method: str | None = None

    @classmethod
    def from_settings(cls, settings: dict[str, Any]) -> EngineConfig:
        """Checked settings. Raises `KnobError` for an unknown name, a wrong type or a bad value."""
        return cls(**{name: check_value(name, value) for name, value in settings.items()})

    def settings(self) -> dict[str, Any]:
        """The settings that are given, without the Nones."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    def arguments(self) -> dict[str, Any]:
        """The settings by the names of the engine's arguments (its flags with underscores);
        without the speculative ones when speculation is off."""
        speculative = ("num_speculative_tokens", "speculative_method")
        left_out = () if self.num_speculative_tokens else speculative
        return {
            KNOBS[name].flag.removeprefix("--").replace("-", "_"): value
            for name, value in self.settings().items()
            if name not in left_out
        }

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
        if self.num_speculative_tokens:
            check_speculation(self, self.num_speculative_tokens)


def check_speculation(config: EngineConfig, num_drafts: int) -> None:
    """Raise `KnobError` when `num_drafts` draft tokens per decode clash with another setting.

    vLLM 0.32 pads a request that starts with one uncomputed token to 1 + drafts tokens; where that
    exceeds the step it waits for ever, and where the long-prefill cap cuts it an assertion fails
    (`Scheduler.schedule`). Which methods exclude asynchronous scheduling: `VllmConfig`.
    """
    rules = drafter_rules(config.speculative_method, num_drafts)
    need = 1 + num_drafts
    for name, room in (
        ("max_num_batched_tokens", rules.draft_slots + need),
        ("max_num_scheduled_tokens", need),
    ):
        value = getattr(config, name)
        if value is not None and value < room:
            raise KnobError(
                f"{name} must be at least {room} with num_speculative_tokens={num_drafts}, got "
                f"{value}; raise it or draft less"
            )
    if 0 < (config.long_prefill_token_threshold or 0) < need:
        raise KnobError(
            f"long_prefill_token_threshold must be 0 or above num_speculative_tokens={num_drafts}, "
            f"got {config.long_prefill_token_threshold}; raise it or draft less"
        )
    if config.async_scheduling and not rules.overlaps:
        raise KnobError(
            f"async_scheduling excludes speculative_method={config.speculative_method}; "
            "set async_scheduling=false or choose another method"
        )


class DrafterRules(NamedTuple):
    """What a speculative method changes in vLLM's scheduling."""

    lookahead: int
    """tokens beyond the scheduled ones that get KV slots (`VllmConfig.num_lookahead_tokens`)"""
    draft_slots: int
    """input budget per scheduled request (`SpeculativeConfig.max_num_new_slots_for_drafting`)"""
    drops_hit: bool
    """a prefix hit loses its last block (`SpeculativeConfig.use_eagle_block_drop`)"""
    overlaps: bool
    """can be scheduled asynchronously (`VllmConfig.__post_init__`)"""
    reads_ahead: int
    """prompt tokens that the drafter reads beyond a chunk; their images must be encoded
    (`VllmConfig.num_prefill_lookahead_tokens`)"""


NO_DRAFTER = DrafterRules(0, 0, False, True, 0)


def drafter_rules(method: str | None, num_drafts: int) -> DrafterRules:
    """Rules of `method` (None: as eagle3) with `num_drafts` draft tokens per decode.

    `mtp` is a single MTP module, `draft_model` drafts one token after another.
    """
    if method in ("ngram", "medusa"):
        return NO_DRAFTER._replace(overlaps=False)
    if method == "draft_model":
        return DrafterRules(num_drafts, 1, False, True, 0)
    if method == "dflash":
        return DrafterRules(num_drafts + 1, num_drafts, True, True, 1)
    return DrafterRules(num_drafts, 0, True, True, 1)


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
