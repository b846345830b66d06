"""The reference's engine loop around vLLM's own scheduler class, without a model or a device."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")

import torch
from reference import Job, Reference, Row, Step
from vllm.engine.arg_utils import EngineArgs
from vllm.sampling_params import SamplingParams
from vllm.usage.usage_lib import UsageContext
from vllm.v1.core.sched.async_scheduler import AsyncScheduler
from vllm.v1.core.sched.output import SchedulerOutput
from vllm.v1.core.sched.scheduler import Scheduler
from vllm.v1.core.single_type_kv_cache_manager import register_all_kvcache_specs
from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheConfig, KVCacheGroupSpec
from vllm.v1.outputs import ModelRunnerOutput
from vllm.v1.request import Request
from vllm.v1.structured_output import StructuredOutputManager

from profiler.engine_config import EngineConfig
from profiler.steps import AFTER_CHUNKS, AFTER_DECODES
from tuner.simulator.run import build_limits

CONFIG_JSON = {
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


@cache
def model_folder() -> str:
    folder = Path(mkdtemp(prefix="stallfree-config-"))
    (folder / "config.json").write_text(json.dumps(CONFIG_JSON))
    return str(folder)


registered: list[bool] = []


def make_scheduler(config: EngineConfig, num_kv_blocks: int) -> Scheduler:
    """vLLM's scheduler with `config`'s settings; asynchronous stepping is the class's choice."""
    settings = config.settings()
    overlapped = settings.pop("async_scheduling")
    args = EngineArgs(
        model=model_folder(),
        skip_tokenizer_init=True,
        load_format="dummy",
        dtype="float32",
        enforce_eager=True,
        **settings,
    )
    vllm_config = args.create_engine_config(UsageContext.LLM_CLASS)
    vllm_config.cache_config.num_gpu_blocks = num_kv_blocks
    vllm_config.scheduler_config.async_scheduling = overlapped  # the CPU platform forces it off
    if not registered:
        register_all_kvcache_specs(vllm_config)
        registered.append(True)
    spec = FullAttentionSpec(
        block_size=settings["block_size"], num_kv_heads=1, head_size=1, dtype=torch.float32
    )
    kv_config = KVCacheConfig(
        num_blocks=num_kv_blocks,
        kv_cache_tensors=[],
        kv_cache_groups=[KVCacheGroupSpec(["layer"], spec)],
    )
    return (AsyncScheduler if overlapped else Scheduler)(
        vllm_config=vllm_config,
        kv_cache_config=kv_config,
        structured_output_manager=StructuredOutputManager(vllm_config),
        block_size=settings["block_size"],
        hash_block_size=settings["block_size"],
        log_stats=True,
    )


class RealStep(Step):
    def __init__(self, out: SchedulerOutput, tokens: ModelRunnerOutput, end: float) -> None:
        super().__init__([], end)
        self.out, self.tokens = out, tokens


class RealScheduler(Reference):
    """`Reference` with every decision taken by vLLM's scheduler."""

    def __init__(
        self,
        jobs: list[Job],
        config: EngineConfig,
        num_kv_blocks: int,
        seconds: Callable[..., float],
    ) -> None:
        super().__init__(jobs, build_limits(config, num_kv_blocks, False), 0, seconds)
        self.real = make_scheduler(config, num_kv_blocks)
        self.of_id = {str(job.number): job for job in jobs}

    def schedule(self, now: float) -> list[tuple[Job, int, int]]:
        while self.future and self.future[0].visible_s <= now:
            self._add(self.future.popleft())
        self.out = out = self.real.schedule()
        before = {n.req_id: n.num_computed_tokens for n in out.scheduled_new_reqs}
        cached = out.scheduled_cached_reqs
        before.update(zip(cached.req_ids, cached.num_computed_tokens, strict=True))
        for victim in out.preempted_req_ids or ():
            self.of_id[victim].decoding = False
            self.pending_preempted.append(int(victim))
        ids = list(out.num_scheduled_tokens)
        emitting = [not self.real.requests[i].is_prefill_chunk for i in ids]
        self.tokens = ModelRunnerOutput(
            req_ids=ids,
            req_id_to_index={r: i for i, r in enumerate(ids)},
            sampled_token_ids=[[7] if emits else [] for emits in emitting],
        )
        if not ids:
            self.empty = RealStep(out, self.tokens, now)
            return []
        self.free = self.real.kv_cache_manager.block_pool.get_num_free_blocks()
        self.running = list(self.real.running)
        return [(self.of_id[i], out.num_scheduled_tokens[i], before[i]) for i in ids]

    def _add(self, job: Job) -> None:
        params = SamplingParams(max_tokens=job.max_output, ignore_eos=True, detokenize=False)
        self.real.add_request(
            Request(
                request_id=str(job.number),
                prompt_token_ids=[1] * job.prompt,
                sampling_params=params,
                pooling_params=None,
                arrival_time=0.0,
            )
        )

    def _dispatch(self, out: list[tuple[Job, int, int]], start: float) -> RealStep:
        batch = self._batch(out)
        end = start + self.seconds(batch, len(self.running))
        self.follows = AFTER_CHUNKS if batch.prefill_tokens else AFTER_DECODES
        self.rows.append(
            Row([(j.number, n, b) for j, n, b in out], sorted(self.pending_preempted), self.free)
        )
        self.pending_preempted = []
        for (job, _, _), sampled in zip(out, self.tokens.sampled_token_ids, strict=True):
            if sampled:
                job.decoding = True
                job.token_s.append(end)
        return RealStep(self.out, self.tokens, end)

    def _process(self, step: Step) -> None:
        assert isinstance(step, RealStep)
        outputs = self.real.update_from_output(step.out, step.tokens)
        for of_client in outputs.values():
            for item in of_client.outputs:
                if item.finish_reason is not None:
                    self.of_id[item.request_id].finished = True
