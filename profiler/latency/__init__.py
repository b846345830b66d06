"""The step-latency model: compiled form, fit, sampled region, report."""
