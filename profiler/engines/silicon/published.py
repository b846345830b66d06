"""Published kernel times and memory sizes: the only file that imports `aiconfigurator_core`.

`aiconfigurator-core` (Apache-2.0) holds measured kernel times of GPUs under vLLM. It is asked
for the GPU time of one forward pass; what it averages or leaves out is dealt with elsewhere.
"""

from __future__ import annotations

import contextlib
import io
import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import yaml

from profiler.engines.silicon.spec import SiliconSpec
from profiler.errors import MissingExtraError, SiliconError

PACKAGE = "aiconfigurator-core"
_MODULE = "aiconfigurator_core"
DATA = "current"
"""the data version of each engine that its maintainers call current"""
_BOUND = "sol"
"""source of a time that is no more than arithmetic over the GPU's peak"""
_MOST_BOUND = 0.05
_LONGEST = 160
"""characters of the package's messages that are shown"""
_SAME = 0.01
"""relative difference up to which two answers are of the same engine"""


@dataclass(frozen=True)
class Memory:
    """Bytes on each GPU at one token budget."""

    capacity: float
    weights: float
    activations: float
    others: float
    """runtime and communication buffers"""
    left: float
    """for the KV cache; negative when the rest does not fit"""
    kv_tokens: int
    """tokens of KV cache that fit it"""


class Published:
    """One model on one system. Raises `SiliconError` for what the data does not hold."""

    def __init__(self, spec: SiliconSpec, folder: Path) -> None:
        """`folder` holds the model's config.json, while this is made and for `memory`."""
        self._spec, self._model = spec, str(folder)
        from aiconfigurator_core import sdk

        with refusing(spec):
            self.num_experts = int(self._parsed().get("num_experts") or 0)
            self._handle = sdk.EngineHandle.compile(
                self._model, spec.system, spec.engine, backend_version=DATA, **self._options()
            )
            self.sources = self._probe()
            self._steps = sdk.RustForwardPassPerfModel.from_native(self._step_options())
            self._require_same_engine()

    def _parsed(self) -> dict[str, Any]:
        from aiconfigurator_core.sdk import utils

        return dict(utils.get_model_config_from_model_path(self._model))

    def _options(self) -> dict[str, Any]:
        """Parallelism and number formats, as the Python functions take them."""
        spec = self._spec
        options: dict[str, Any] = {"tp_size": spec.tp}
        if self.num_experts:
            options["moe_tp_size"] = 1 if spec.expert_parallel else spec.tp
            options["moe_ep_size"] = spec.tp if spec.expert_parallel else 1
        if spec.weight_dtype != "auto":
            options["gemm_quant_mode"] = spec.weight_dtype
        experts = spec.expert_dtype or spec.weight_dtype
        if self.num_experts and experts != "auto":
            options["moe_quant_mode"] = experts
        if spec.kv_dtype != "auto":
            options["kvcache_quant_mode"] = spec.kv_dtype
        return options

    def _step_options(self) -> dict[str, Any]:
        """The same, as the step model takes them; it ignores a key that it does not know."""
        names = {
            "gemm_quant_mode": "weight_dtype",
            "moe_quant_mode": "moe_dtype",
            "kvcache_quant_mode": "kv_cache_dtype",
        }
        return {
            "schema_version": 1,
            "model_name": self._model,
            "system_name": self._spec.system,
            "backend": self._spec.engine,
            "backend_version": DATA,
            "pp_size": 1,
            **{names.get(k, k): v for k, v in self._options().items()},
        }

    def _probe(self) -> dict[str, float]:
        """Share of GPU time by where it comes from (measured, interpolated, computed), at a chunk
        of 2,048 tokens and at 64 decodes. Raises where the data lacks a kernel."""
        chunk, _ = self._handle.run_static_per_op(batch_size=4, isl=512, osl=2)
        parts = [*chunk, *self._handle.decode_step_per_op(64, 2000, 2)]
        total = sum(ms for _, ms, _, _ in parts)
        found: dict[str, float] = {}
        for _, ms, _, source in parts:
            found[source] = found.get(source, 0.0) + ms / total
        if found.get(_BOUND, 0.0) > _MOST_BOUND:
            raise ValueError(
                f"{found[_BOUND]:.0%} of the GPU time would be a hardware bound, not measured"
            )
        return {name: round(share, 4) for name, share in sorted(found.items()) if share > 0.0}

    def _require_same_engine(self) -> None:
        """The step model ignores an option that it does not know: the handle must agree."""
        parts = self._handle.decode_step_per_op(64, 2000, 2)
        expected, got = sum(ms for _, ms, _, _ in parts), self.step_ms(0, 0, 0, 64, 128_000)
        if abs(got / expected - 1.0) > _SAME:
            raise ValueError(
                f"its two interfaces disagree on these options ({got:.2f} and {expected:.2f} ms "
                "for 64 decodes)"
            )

    def step_ms(
        self, prefills: int, prefill_tokens: int, cached: int, decodes: int, context: int
    ) -> float:
        """GPU milliseconds of one step of equal chunks and equal decodes.

        Parameters
        ----------
        prefills, prefill_tokens, cached
            Prompts that get a chunk, tokens of all chunks, tokens computed before of all of them.
        decodes, context
            Requests that decode a token, tokens of context of all of them.
        """
        scheduled = {
            "num_prefill_requests": prefills,
            "sum_prefill_tokens": prefill_tokens,
            "sum_prefill_kv_tokens": cached,
            "num_decode_requests": decodes,
            "sum_decode_kv_tokens": context,
        }
        request = {"version": 1, "scheduled_requests": scheduled}
        return float(self._steps.estimate_forward_pass_time_ms(request))

    def layers_ms(self, tokens: int) -> float:
        """GPU milliseconds of everything but attention in a step with chunks of `tokens` tokens."""
        chunk = max(1, tokens - 1)
        parts = self._handle.mixed_step_breakdown(chunk, tokens - chunk, chunk, 2)
        return float(parts[1])

    @property
    def splits_attention(self) -> bool:
        """Whether attention is a part of its own; else (latent attention) it is timed together
        with its projections, and a mixed step sums the cached tokens of all its chunks."""
        return float(self._handle.mixed_step_breakdown(512, 8, 512, 2)[2]) > 0.0

    def memory(self, token_budget: int) -> Memory:
        """Memory of one GPU when the engine is started with this token budget."""
        from aiconfigurator_core.sdk import memory

        with refusing(self._spec):
            parts = memory.KVCacheEstimator.from_request(
                self._model,
                self._spec.system,
                self._spec.engine,
                DATA,
                max_num_tokens=token_budget,
                max_batch_size=1,  # no part of the estimate
                **self._options(),
            ).breakdown
        capacity = float(parts["gpu_memory_capacity_bytes"])
        left = capacity * self._spec.memory_fraction - float(parts["non_kv_bytes"])
        return Memory(
            capacity=capacity,
            weights=float(parts["weights_bytes"]),
            activations=float(parts["activations_bytes"]),
            others=float(parts["runtime_overhead_bytes"]) + float(parts["comm_overhead_bytes"]),
            left=left,
            kv_tokens=int(parts["tokens_from_kv_bytes"](left)) if left > 0.0 else 0,
        )

    def planner(self) -> Callable[[int, int, int], tuple[float, float]]:
        """NVIDIA's static estimate: (prompt, output, concurrency) -> TTFT and TPOT, milliseconds.

        `run_agg` of the package: mean-field step counts, one prompt of full length per mixed step,
        and a queueing factor in the logarithm of the concurrency. The folder must still exist.
        """
        from aiconfigurator_core.sdk import RuntimeConfig, config_builders, perf_database
        from aiconfigurator_core.sdk.backends.factory import get_backend
        from aiconfigurator_core.sdk.models import get_model

        spec = self._spec
        shape = {"pp_size": 1, "attention_dp_size": 1, "moe_tp_size": 1, "moe_ep_size": 1}
        with refusing(spec):
            config = config_builders.build_model_config(**{**shape, **self._options()})
            model = get_model(self._model, config, spec.engine)
            backend = get_backend(spec.engine)
            data = perf_database.get_database(spec.system, spec.engine, DATA)

        def estimate(isl: int, osl: int, concurrency: int) -> tuple[float, float]:
            asked = RuntimeConfig(batch_size=concurrency, isl=isl, osl=osl)
            with refusing(spec):
                summary = backend.run_agg(model, data, asked, ctx_tokens=isl)
                line = summary.get_summary_df().iloc[0]
            return float(line["ttft"]), float(line["tpot"])

        return estimate

    def data_version(self) -> str:
        """Engine version that the kernel times were measured under."""
        slots = yaml.safe_load((systems_folder() / "query_versions.yaml").read_text("utf-8"))
        own = slots["overrides"].get(self._spec.system, {})
        engine = own.get(self._spec.engine) or slots["defaults"][self._spec.engine]
        return str(engine["current"])


def require_package() -> None:
    """Raise `MissingExtraError` when the published data is not installed."""
    if find_spec(_MODULE) is None:
        raise MissingExtraError(
            "the published GPU data is not installed; install stallfree[silicon] "
            "(Python 3.11 to 3.13, Linux x86-64)"
        )
    os.environ.setdefault("HF_HUB_OFFLINE", "1")


def package_version() -> str:
    """Version of the package that holds the data."""
    return version(PACKAGE)


def _package_folder() -> Path:
    found = find_spec(_MODULE)
    assert found is not None and found.origin is not None  # `require_package` comes first
    return Path(found.origin).parent


def systems_folder() -> Path:
    """Where the package keeps its data."""
    return _package_folder() / "systems"


def bundled_models() -> dict[str, Path]:
    """Model name -> its config.json in the package."""
    suffix = "_config.json"
    files = (_package_folder() / "model_configs").glob(f"*{suffix}")
    plain = [f for f in files if not f.name.endswith("_hf_quant_config.json")]
    return {f.name.removesuffix(suffix).replace("--", "/"): f for f in sorted(plain)}


def systems_with_data(engine: str) -> tuple[str, ...]:
    """Names of the GPU systems with kernel times of `engine`."""
    return tuple(sorted({f.parts[-3] for f in systems_folder().glob(f"data/*/gemm/{engine}")}))


def gpu_facts(system: str) -> dict[str, Any]:
    """The `gpu` section of a system's description: memory, bandwidth, arithmetic, sm_version."""
    content = yaml.safe_load((systems_folder() / f"{system}.yaml").read_text("utf-8"))
    facts: dict[str, Any] = content["gpu"]
    return facts


@contextmanager
def refusing(spec: SiliconSpec) -> Iterator[None]:
    """Turn what the package raises into one line; keep its chatter off the terminal."""
    chatter = logging.getLogger(_MODULE)
    level, quiet = chatter.level, io.StringIO()
    chatter.setLevel(logging.CRITICAL)
    try:
        with contextlib.redirect_stdout(quiet), contextlib.redirect_stderr(quiet):
            yield
    except (ValueError, RuntimeError, AssertionError, KeyError, TypeError, LookupError) as error:
        raise SiliconError(
            f"the published data cannot answer for {spec.model} on {spec.system} "
            f"(tp={spec.tp}, weight_dtype={spec.weight_dtype}, kv_dtype={spec.kv_dtype}): "
            f"{one_line(error)}"
        ) from error
    finally:
        chatter.setLevel(level)


def one_line(error: Exception) -> str:
    """The beginning of the package's message, without paths of this machine."""
    words = " ".join(str(error).split()).split(" ")
    text = " ".join(w for w in words if "/" not in w or not Path(w.strip("()'")).is_absolute())
    return text[:_LONGEST].rstrip(".; ") + (" ..." if len(text) > _LONGEST else "")
