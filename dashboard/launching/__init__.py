"""Studies that are launched from a page: what is typed, what is admitted, what is queued."""
