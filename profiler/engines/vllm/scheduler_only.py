"""vLLM's own scheduler class without a model, a worker or a device.

It is what the simulator is compared with (`stallfree difftest`, tests, benchmarks). Requests are
known by numbers; the sampled tokens are made up, different for every request.
"""

from __future__ import annotations

import json
import os
from collections import deque
from dataclasses import fields
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, Protocol

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")

import torch
import vllm
from vllm.config import SpeculativeConfig, VllmConfig
from vllm.engine.arg_utils import EngineArgs
from vllm.multimodal.inputs import MultiModalFeatureSpec, PlaceholderRange
from vllm.sampling_params import SamplingParams
from vllm.usage.usage_lib import UsageContext
from vllm.utils.hashing import get_hash_fn_by_name
from vllm.v1.core.encoder_cache_manager import EncoderCacheManager
from vllm.v1.core.kv_cache_utils import get_request_block_hasher, init_none_hash
from vllm.v1.core.sched.async_scheduler import AsyncScheduler
from vllm.v1.core.sched.output import SchedulerOutput
from vllm.v1.core.sched.scheduler import Scheduler
from vllm.v1.core.single_type_kv_cache_manager import register_all_kvcache_specs
from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheConfig, KVCacheGroupSpec
from vllm.v1.outputs import DraftTokenIds, KVConnectorOutput, ModelRunnerOutput
from vllm.v1.request import Request
from vllm.v1.structured_output import StructuredOutputManager

from profiler.versions import ABSENT

MODEL_JSON = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 1,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "vocab_size": 4096,
    "max_position_embeddings": 1 << 20,
    "torch_dtype": "float32",
}

SAMPLED_TOKEN = 500_000_000
"""from here on: the made-up output tokens"""


VERSION: str = vllm.__version__
ARGUMENTS = frozenset(f.name for f in fields(EngineArgs))


def known_arguments(settings: dict[str, Any]) -> dict[str, Any]:
    """`settings` without those that this vLLM lacks and that ask for what it does anyway."""
    return {
        name: value
        for name, value in settings.items()
        if name in ARGUMENTS or name not in ABSENT or value != ABSENT[name]
    }


@cache
def model_folder() -> str:
    """A folder with the configuration of a tiny model."""
    folder = Path(mkdtemp(prefix="stallfree-config-"))
    (folder / "config.json").write_text(json.dumps(MODEL_JSON))
    return str(folder)


@cache
def register_once() -> None:
    """Register vLLM's KV cache kinds, once per process."""
    register_all_kvcache_specs(vllm_config({"max_model_len": 64}))


def vllm_config(settings: dict[str, Any]) -> VllmConfig:
    """vLLM's configuration for `settings` (flags by name)."""
    args = EngineArgs(
        model=model_folder(),
        skip_tokenizer_init=True,
        load_format="dummy",
        dtype="float32",
        enforce_eager=True,
        **known_arguments(settings),
    )
    return args.create_engine_config(UsageContext.LLM_CLASS)


def speculative_config(config: VllmConfig, method: str, num_drafts: int) -> SpeculativeConfig:
    """vLLM's speculative configuration without a draft model.

    Made for n-grams, which need none, and renamed: the scheduler reads nothing but properties that
    follow from the method's name and the number of drafts.
    """
    speculative = SpeculativeConfig(
        method="ngram",
        num_speculative_tokens=num_drafts,
        target_model_config=config.model_config,
        target_parallel_config=config.parallel_config,
    )
    speculative.method = method
    speculative.parallel_drafting = method == "dflash"
    return speculative


def make_scheduler(settings: dict[str, Any], num_kv_blocks: int) -> Scheduler:
    """vLLM's scheduler; asynchronous stepping is the choice of the class."""
    settings = dict(settings)
    overlapped = bool(settings.pop("async_scheduling", False))
    block = settings["block_size"]
    drafts, method = (
        settings.pop("num_speculative_tokens", 0),
        settings.pop("speculative_method", None),
    )
    register_once()
    config = vllm_config(settings)
    if drafts:
        config.speculative_config = speculative_config(config, method or "eagle3", drafts)
    config.cache_config.num_gpu_blocks = num_kv_blocks
    config.scheduler_config.async_scheduling = overlapped  # the CPU platform forces it off
    spec = FullAttentionSpec(block_size=block, num_kv_heads=1, head_size=1, dtype=torch.float32)
    kv_config = KVCacheConfig(
        num_blocks=num_kv_blocks,
        kv_cache_tensors=[],
        kv_cache_groups=[KVCacheGroupSpec(["layer"], spec)],
    )
    return (AsyncScheduler if overlapped else Scheduler)(
        vllm_config=config,
        kv_cache_config=kv_config,
        structured_output_manager=StructuredOutputManager(config),
        block_size=block,
        hash_block_size=block,
        log_stats=True,
    )


class Arrival(Protocol):
    """A request; equal prompts have equal tokens."""

    number: int
    prompt: list[int]
    max_output: int
    priority: int
    arrival_s: float
    images: list[tuple[int, int, int]]
    """(start, tokens, identity) of each image in the prompt"""


def image_features(request: Arrival) -> list[MultiModalFeatureSpec]:
    """The images as the engine's front end describes them, without their data."""
    return [
        MultiModalFeatureSpec(
            data=None,
            modality="image",
            identifier=f"image-{identity}",
            mm_position=PlaceholderRange(offset=start, length=tokens),
        )
        for start, tokens, identity in request.images
    ]


class SchedulerOnly:
    """A scheduler that is stepped by hand: `schedule`, then `update` in the same order.

    Parameters
    ----------
    settings
        Engine settings by vLLM's names, `block_size` and `async_scheduling` among them.
    num_kv_blocks
        KV blocks, the null block included.
    encoder
        Image tokens that the encoder may compute in a step and that its cache holds, which the
        engine derives from a multimodal model (the model here is text only); None for its rule
        where no item is larger than `max_num_batched_tokens`.
    """

    def __init__(
        self,
        settings: dict[str, Any],
        num_kv_blocks: int,
        encoder: tuple[int, int] | None = None,
    ) -> None:
        self.scheduler = make_scheduler(settings, num_kv_blocks)
        budget, cache = encoder or (settings["max_num_batched_tokens"],) * 2
        self.scheduler.max_num_encoder_input_tokens = budget
        self.scheduler.encoder_cache_manager = EncoderCacheManager(cache_size=cache)
        self.encoded: list[tuple[int, int]] = []
        self.hasher = None
        if settings.get("enable_prefix_caching", True):
            hash_function = get_hash_fn_by_name("sha256")
            init_none_hash(hash_function)
            self.hasher = get_request_block_hasher(settings["block_size"], hash_function)
        self.in_flight: deque[SchedulerOutput] = deque()
        self.reports: KVConnectorOutput | None = None

    def add(self, request: Arrival) -> None:
        """A request arrives."""
        params = SamplingParams(max_tokens=request.max_output, ignore_eos=True, detokenize=False)
        self.scheduler.add_request(
            Request(
                request_id=f"{request.number:07d}",
                prompt_token_ids=request.prompt,
                sampling_params=params,
                pooling_params=None,
                priority=request.priority,
                arrival_time=request.arrival_s,
                mm_features=image_features(request),
                block_hasher=self.hasher,
            )
        )

    def schedule(
        self,
    ) -> tuple[list[tuple[int, int, int]], list[int], list[tuple[int, int]], int]:
        """One schedule() call.

        Returns [(request, tokens, tokens computed before)] in the engine's order, who was
        preempted, who gets a token from this step with how many drafts to verify (a request that
        starts has padding in their place, of which none is accepted), and the number of free KV
        blocks.
        """
        out = self.scheduler.schedule()
        before = {new.req_id: new.num_computed_tokens for new in out.scheduled_new_reqs}
        cached = out.scheduled_cached_reqs
        before.update(zip(cached.req_ids, cached.num_computed_tokens, strict=True))
        ids = list(out.num_scheduled_tokens)
        emits = [i for i in ids if not self.scheduler.requests[i].is_prefill_chunk]
        starts = cached.resumed_req_ids | {new.req_id for new in out.scheduled_new_reqs}
        drafts = out.scheduled_spec_decode_tokens
        inputs = out.scheduled_encoder_inputs
        self.encoded = [
            (int(i), sum(map(self.scheduler.requests[i].get_num_encoder_embeds, inputs[i])))
            for i in ids
            if inputs.get(i)
        ]
        if ids:
            self.in_flight.append(out)
        return (
            [(int(i), out.num_scheduled_tokens[i], before[i]) for i in ids],
            [int(i) for i in out.preempted_req_ids or ()],
            [(int(i), 0 if i in starts else len(drafts.get(i, ()))) for i in emits],
            self.scheduler.kv_cache_manager.block_pool.get_num_free_blocks(),
        )

    def update(self, tokens: dict[int, int]) -> list[int]:
        """Give the scheduler the output of the oldest busy step in flight, so many made-up tokens
        of each request, and the next drafts; returns who finished."""
        out = self.in_flight.popleft()
        ids = list(out.num_scheduled_tokens)
        runner_output = ModelRunnerOutput(
            req_ids=ids,
            req_id_to_index={request: i for i, request in enumerate(ids)},
            sampled_token_ids=[[SAMPLED_TOKEN + int(i)] * tokens.get(int(i), 0) for i in ids],
            kv_connector_output=self.reports,
        )
        self.reports = None
        outputs = self.scheduler.update_from_output(out, runner_output)
        if self.scheduler.num_spec_tokens and not isinstance(self.scheduler, AsyncScheduler):
            new = [[0] * self.scheduler.num_spec_tokens for _ in ids]
            self.scheduler.update_draft_token_ids(DraftTokenIds(ids, new))
        return [
            int(item.request_id)
            for of_client in outputs.values()
            for item in of_client.outputs
            if item.finish_reason is not None
        ]

    def num_running(self) -> int:
        """Running requests."""
        return len(self.scheduler.running)

    def queues(self) -> tuple[list[int], list[int]]:
        """Running, then waiting requests, in the order of their queues."""
        running = [int(r.request_id) for r in self.scheduler.running]
        return running, [int(r.request_id) for r in self.scheduler.waiting]
