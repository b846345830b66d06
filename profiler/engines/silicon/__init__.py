"""A latency model and KV capacity from published GPU measurements; see `build`."""
