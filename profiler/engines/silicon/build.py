"""`build_silicon`: published measurements -> latency model, resolved settings and KV capacity."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from profiler.engine_config import EngineConfig
from profiler.engines.base import Progress
from profiler.engines.silicon.defaults import (
    LEAST_TOP_TOKENS,
    capture_sizes,
    kv_blocks_by_budget,
    server_defaults,
)
from profiler.engines.silicon.published import (
    PACKAGE,
    Published,
    gpu_facts,
    package_version,
    require_package,
)
from profiler.engines.silicon.shapes import Shapes, as_samples, published_s, random_shapes
from profiler.engines.silicon.source import check_spec, open_model, open_published
from profiler.engines.silicon.spec import SiliconSpec, Terms
from profiler.engines.silicon.tabulate import NODES, Extent, tabulate, with_terms
from profiler.latency.base import StepTimeModel
from profiler.latency.params import IntArray, StepTables, plain_params
from profiler.latency.region import SampledRegion, columns_of
from profiler.model_spec import ModelSpec
from profiler.steps import StepSamples

NUM_SHAPES = 5000


@dataclass(frozen=True)
class Silicon:
    """Everything that a simulation of this deployment needs. Filled by `build_silicon`."""

    spec: SiliconSpec
    kernel_model: StepTimeModel
    """GPU kernel time alone"""
    resolved: EngineConfig
    """every setting, as vLLM 0.32 resolves it on this GPU"""
    kv_blocks_by_budget: tuple[tuple[int, int], ...]
    """(token budget, KV blocks), ascending; between them the blocks go linearly"""
    num_kv_blocks: int
    """at the resolved budget"""
    published: Published
    shapes: Shapes
    facts: dict[str, Any]
    """model shape, device, where the data comes from"""

    @property
    def num_layers(self) -> int:
        """Layers of the model."""
        return int(self.facts["model_shape"]["num_layers"])

    @property
    def model(self) -> StepTimeModel:
        """With the terms of `spec`."""
        return complete(self.kernel_model, self.spec.terms, self.capture_sizes, self.num_layers)

    def published_steps(self) -> StepSamples:
        """The shapes of the sampled region with the GPU time that the source gives."""
        return as_samples(self.shapes, published_s(self.published, self.shapes))

    @property
    def capture_sizes(self) -> IntArray:
        """Token counts that CUDA graphs are captured for, ascending."""
        return capture_sizes(self.resolved, gpu_facts(self.spec.system))


def build_silicon(
    spec: SiliconSpec,
    config: EngineConfig | None = None,
    *,
    nodes: int = NODES,
    num_shapes: int = NUM_SHAPES,
    progress: Progress | None = None,
) -> Silicon:
    """Latency model, settings and KV capacity of `spec` from published measurements.

    Parameters
    ----------
    config
        Settings that are not left to the engine.
    nodes
        Nodes along each axis of the attention grids.
    num_shapes
        Random shapes that mark the sampled region.
    progress
        Called with (parts done, parts in all).

    Raises
    ------
    MissingExtraError
        The published data is not installed.
    SiliconError
        It does not hold this model, GPU or format, or the weights do not fit.
    ModelFolderError
        The model's config.json cannot be read.
    KnobError
        Two settings clash.
    """
    require_package()
    check_spec(spec)
    gpu = gpu_facts(spec.system)
    with open_model(spec.model) as (folder, shape):
        published = open_published(spec, folder)
        defaults = server_defaults(gpu, spec.system)
        resolved = _over(config or EngineConfig(), defaults, shape.max_model_len)
        blocks = kv_blocks_by_budget(published, spec, resolved)
    extent = extent_of(resolved)
    tables = tabulate(published, extent, nodes=nodes, progress=progress)
    num_blocks = dict(blocks)[resolved.max_num_batched_tokens or 0]
    shapes = random_shapes(
        num_shapes,
        extent,
        num_blocks * (resolved.block_size or 1),
        one_chunk_when_mixed=not published.splits_attention,
        seed=0,
    )
    facts = _facts(spec, published) | {"model_shape": _model_shape(spec, shape)}
    kernel_model = _model(tables, shapes, facts)
    return Silicon(
        spec=spec,
        kernel_model=kernel_model,
        resolved=resolved,
        kv_blocks_by_budget=blocks,
        num_kv_blocks=num_blocks,
        published=published,
        shapes=shapes,
        facts=facts,
    )


def _over(config: EngineConfig, defaults: EngineConfig, max_model_len: int) -> EngineConfig:
    """`config` over the defaults; what follows another setting by default does so."""
    full = EngineConfig(max_model_len=max_model_len).over(config.over(defaults))
    full = config.over(full).with_default_seqs(config)
    budget = config.max_num_scheduled_tokens or full.max_num_batched_tokens
    active = config.max_num_active_seqs or full.max_num_seqs
    follows = EngineConfig(max_num_scheduled_tokens=budget, max_num_active_seqs=active)
    full = follows.over(full)
    full.check()
    return full


def extent_of(config: EngineConfig) -> Extent:
    """How far the tables go: twice the budget (at least 16,384 tokens), the sequence limit (at
    least 1,024), and the longest request."""
    return Extent(
        tokens=max(2 * (config.max_num_batched_tokens or 0), LEAST_TOP_TOKENS),
        decodes=max(config.max_num_seqs or 0, 1024),
        depth=config.max_model_len or 1,
    )


def _model(tables: StepTables, shapes: Shapes, facts: dict[str, Any]) -> StepTimeModel:
    columns = columns_of(as_samples(shapes, np.ones(shapes.prompts.size)))
    return StepTimeModel(
        params=plain_params()._replace(tables=tables),
        frontend_in_s=0.0,
        frontend_out_s=0.0,
        residuals=np.ones(1),
        region=SampledRegion.of(columns),
        facts=facts,
    )


def complete(
    kernel: StepTimeModel, terms: Terms, sizes: IntArray, num_layers: int
) -> StepTimeModel:
    """`kernel`, a model of GPU kernel time alone, with what it leaves out.

    See `tabulate.with_terms` for the other parameters.
    """
    tables = with_terms(kernel.params.tables, terms, sizes, num_layers)
    params = kernel.params._replace(
        tables=tables, host_s=terms.host_s, host_per_running_s=terms.host_per_running_s
    )
    return replace(kernel, params=params, frontend_in_s=terms.frontend_s)


def _model_shape(spec: SiliconSpec, shape: ModelSpec) -> dict[str, Any]:
    """With the format that keys and values are kept in."""
    kv_dtype = {"fp8": 1, "bfloat16": 2}.get(spec.kv_dtype, shape.kv_dtype_bytes)
    return asdict(shape) | {"kv_dtype_bytes": kv_dtype}


def _facts(spec: SiliconSpec, published: Published) -> dict[str, Any]:
    return {
        "engine": spec.engine,
        "version": "0.32",
        "device": f"{spec.tp} x {spec.system}",
        "model": spec.model,
        "num_gpus": spec.tp,
        "silicon": {
            **spec.to_dict(),
            "engine_args": spec.engine_args(),
            "package": f"{PACKAGE} {package_version()}",
            "data_version": f"{spec.engine} {published.data_version()}",
            "sources": published.sources,
        },
    }
