"""The study file's `profile.silicon`."""

from __future__ import annotations

from dataclasses import replace

from pydantic import Field

from profiler.engines.silicon.fitted import fitted_terms
from profiler.engines.silicon.spec import Terms
from tuner.section import Section


class TermsSection(Section):
    """What published kernel times leave out (`profiler.engines.silicon.spec.Terms`)."""

    step_s: float = Field(default=Terms.step_s, ge=0)
    host_s: float = Field(default=Terms.host_s, ge=0)
    host_per_running_s: float = Field(default=Terms.host_per_running_s, ge=0)
    frontend_s: float = Field(default=Terms.frontend_s, ge=0)
    graph_padding: bool = Terms.graph_padding
    fitted: bool = True  # what is not given below comes from published end-to-end rows
    chunk_factor: float | None = Field(default=None, gt=0)
    decode_factor: float | None = Field(default=None, gt=0)
    launch_per_layer_s: float | None = Field(default=None, ge=0)


class SiliconSection(Section):
    """Predict on a GPU from published measurements; the model defaults to the engine's."""

    system: str
    model: str | None = None
    tp: int = Field(default=1, ge=1)
    weight_dtype: str = "auto"
    kv_dtype: str = "auto"
    expert_parallel: bool = False
    terms: TermsSection = TermsSection()
    calibrate: str | None = None
    """measured profile to correct the latency model with"""

    def chosen_terms(self, engine_model: str) -> Terms:
        """The terms; what is not given is fitted, or left out where `fitted` is False."""
        given = self.terms.model_dump(exclude={"fitted"}, exclude_none=True)
        model = self.model or engine_model
        known = (
            fitted_terms(self.system, model, self.weight_dtype) if self.terms.fitted else Terms()
        )
        return replace(known, **given)
