"""Should you disaggregate at all? Aggregated against split at equal GPUs, and where that flips."""
