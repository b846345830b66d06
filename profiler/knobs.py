"""The knob table: the one place that knows an engine's settings.

Search space, driver, exporters, simulator, dashboard and README read this table. Meanings and
ranges: vLLM 0.32.0, `vllm/config/scheduler.py`, `vllm/config/cache.py`, `vllm/engine/arg_utils.py`.
Versions: the first release whose `EngineArgs` has the setting; 0.8.5 is the oldest that was read.
What other versions do otherwise is in `profiler.versions`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

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
            ">=0.8.5",
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
            ">=0.26",
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
            ">=0.8.5",
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
            ">=0.31",
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
            ">=0.8.5",
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
            ">=0.31",
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
            ">=0.19",
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
            ">=0.8.5",
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
            ">=0.24",
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
            ">=0.8.5",
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
            ">=0.8.5",
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
            ">=0.8.5",
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
            ">=0.8.5",
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
            ">=0.8.5",
            "number of KV blocks; one of them is the null block",
        ),
        Knob(
            "disable_chunked_mm_input",
            "bool",
            "",
            None,
            None,
            "false; true for models that need whole images",
            "--disable-chunked-mm-input",
            ">=0.9",
            "end a chunk before an image instead of inside it",
        ),
        Knob(
            "num_speculative_tokens",
            "int",
            "tokens/step",
            0,
            64,
            "0 = off",
            "--spec-tokens",
            ">=0.22",
            "draft tokens per decode and step; a method with a draft model also needs its name, "
            "spec_model in the engine's arguments",
        ),
        Knob(
            "speculative_method",
            "choice",
            "",
            None,
            None,
            "from the draft model; simulated as eagle3",
            "--spec-method",
            ">=0.22",
            "who drafts; counts only with num_speculative_tokens above 0",
            choices=("ngram", "medusa", "eagle", "eagle3", "mtp", "draft_model", "dflash"),
        ),
    )
}
