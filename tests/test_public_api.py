"""The names and signatures that others build on; a change here is a change of the public API."""

from __future__ import annotations

import importlib
import inspect

import pytest

SIGNATURES = {
    "profiler.collect.profile": "(engine, trace, *, budget_s, seed, progress)",
    "profiler.collect.run_sentinel": "(engine)",
    "profiler.collect.silicon.profile_silicon": "(spec, config, *, measured, progress)",
    "profiler.engines.deployment.deployment.Deployment": "(spec)",
    "profiler.engines.deployment.one_core.one_core_pair": "(spec, cores)",
    "profiler.engines.deployment.one_core.one_core_replicas": "(spec, cores)",
    "profiler.engines.seeded_model.write_seeded_model": "(source, folder, *, seed)",
    "profiler.engines.silicon.build.build_silicon": (
        "(spec, config, *, nodes, num_shapes, progress)"
    ),
    "profiler.engines.start_engine": "(spec)",
    "profiler.kv_link.measure.measure_link": "(plan, *, progress)",
    "profiler.kv_transfer.kv_shape_of": "(model_shape)",
    "profiler.kv_transfer.transfer_bytes_per_token": "(kv, *, prefill_tp, decode_tp)",
    "profiler.latency.calibrate.calibrate": "(model, samples, *, seed)",
    "profiler.latency.base.load_latency_model": "(name_or_path)",
    "profiler.latency.fit.fit_step_time": "(samples, *, seed)",
    "profiler.latency.report.held_out_report": "(samples, *, seed, sentinel_spread)",
    "profiler.latency.step_time.step_interval": "(params, batch, num_running, overlapped)",
    "profiler.latency.step_time.step_time": "(params, batch)",
    "profiler.replay.replay": "(engine, trace, *, itl_limit_s, seed, progress, max_late_s)",
    "profiler.traffic.doctor.diagnose": "(trace)",
    "profiler.traffic.readers.read_trace": "(path, *, fmt, mapping, rate_rps, stretch)",
    "profiler.traffic.regimes.find_regimes": "(trace, most)",
    "profiler.traffic.synthetic.like": "(name, *, duration_s, rate_rps, seed)",
    "profiler.traffic.synthetic.mixed": "(parts)",
    "profiler.traffic.synthetic.synthesize": "(spec)",
    "tuner.drift.engine.compare_engine": "(seen, predicted, windows, known_error)",
    "tuner.drift.price.price": "(run, problem, progress, *, profile_again, trials)",
    "tuner.drift.retune.retune": "(run, study, plan, ui, start)",
    "tuner.drift.scrape.parse_scrape": "(text, name)",
    "tuner.drift.scrape.read_metrics": "(source)",
    "tuner.drift.traffic.compare_traffic": "(before, after)",
    "tuner.drift.version.compare_version": "(facts, running, settings)",
    "tuner.drift.watch.watch": "(run, trace, options, ui)",
    "tuner.explain.explain": "(scene, what)",
    "tuner.export.bundle.bundle": "(results, options, held_out)",
    "tuner.export.emit.emit": "(files, folder)",
    "tuner.export.from_results.deployment_of": "(results, pick)",
    "tuner.export.from_results.picked": "(results, pick)",
    "tuner.export.targets.render": "(deployment, target)",
    "tuner.fidelity.rows.read_rows": "(table, engine)",
    "tuner.fidelity.run.run_fidelity": "(ui, *, workers, fit)",
    "tuner.gate.judge": "(run, proposed, current, ui)",
    "tuner.intervals.over_windows": "(outcomes, drawn, slo)",
    "tuner.metrics.compute": "(outcomes, slo)",
    "tuner.search.confirm.confirm": "(plan, folder, alive, ui)",
    "tuner.search.fleet_replay.rehearse_fleet": (
        "(deployment, fleet, trace, *, itl_limit_s, seed, progress, max_late_s)"
    ),
    "tuner.search.fleet_replay.rehearsed_fleet": "(fleet, model, folder)",
    "tuner.search.fleet_problem.shortened": "(problem, most)",
    "tuner.search.fleet_tune.fleet_problem": "(study, folder, trace, measured, ui)",
    "tuner.search.fleet_tune.tune_fleet": "(study, folder, trace, measured, ui)",
    "tuner.search.load_curve.load_curves": "(problem, configs, progress, *, seed, factors)",
    "tuner.search.optimize.search": "(problem, database, options, progress)",
    "tuner.search.tune.tune": "(study, folder, options, ui)",
    "tuner.simulator.is_compiled": "(speculative, fleet)",
    "tuner.simulator.links.link_named": (
        "(name, *, latency_s, bytes_per_s, overlap_layers, folder)"
    ),
    "tuner.simulator.prepare": "(speculative, fleet)",
    "tuner.search.run_queue.enqueue": "(root, study_text, base)",
    "tuner.search.run_queue.next_queued": "(root, skipped)",
    "tuner.search.run_queue.resume": "(folder)",
    "tuner.search.run_queue.stop": "(folder)",
    "tuner.search.kept.load_kept": "(target, folder)",
    "tuner.settings_file.read_settings": "(path)",
    "tuner.simulator.simulate": (
        "(trace, config, model, *, num_kv_blocks, itl_limit_s, seed, record, timeline, "
        "concurrency, encoder, acceptance)"
    ),
    "tuner.simulator.simulate_fleet": "(trace, fleet, *, itl_limit_s, seed, fails)",
    "tuner.study.build_trace": "(study)",
    "tuner.verdict.judge.judge": "(ranked, bench, settings, ui)",
    "tuner.verdict.run.verdict": "(study, folder, options, ui)",
    "tuner.study.load_study": "(path, base)",
    "tuner.study.parse_study": "(text, what)",
    "tuner.windows.draw_windows": "(trace, num_windows)",
    "tuner.windows.each_window": "(trace, num_windows)",
}


def shape(function: object) -> str:
    """Parameter names of `function`, without types and defaults."""
    parameters = inspect.signature(inspect.unwrap(function)).parameters.values()  # type: ignore[arg-type]
    names, starred = [], False
    for parameter in parameters:
        if parameter.kind is parameter.KEYWORD_ONLY and not starred:
            names.append("*")
            starred = True
        names.append(parameter.name)
    return f"({', '.join(names)})"


@pytest.mark.parametrize("path", SIGNATURES)
def test_signature(path: str) -> None:
    module, _, name = path.rpartition(".")
    assert shape(getattr(importlib.import_module(module), name)) == SIGNATURES[path]
