"""One engine being profiled: keeps its steps, its sentinel readings and its clock."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from profiler.collect.sentinel import REPEATS, Reading, last_token_s, read_sentinel, speed_at
from profiler.engines.base import Engine, Progress, Requests
from profiler.outcomes import TokenTimes
from profiler.steps import StepSamples, concatenate

SENTINEL_EVERY_S = 0.7
"""from the end of one to the start of the next; one takes about 0.05 s on a small model"""


@dataclass
class Session:
    """Written by its own methods alone. All times are on the engine's clock, which for a real
    engine is the machine's monotonic clock and for a simulated one its own."""

    engine: Engine
    budget_s: float
    progress: Progress | None
    parts: list[StepSamples] = field(default_factory=list)
    readings: list[Reading] = field(default_factory=list)
    num_configurations: int = 0
    start_s: float = 0.0
    now_s: float = 0.0

    @property
    def elapsed_s(self) -> float:
        return self.now_s - self.start_s

    @property
    def left_s(self) -> float:
        return self.budget_s - self.elapsed_s

    def read_sentinel(self) -> Reading:
        """Run the sentinel and keep its reading and steps."""
        reading, steps = read_sentinel(self.engine)
        if not self.readings:
            self.start_s = reading.start_s
        self.readings.append(reading)
        self.parts.append(steps)
        self.advance(reading.end_s)
        return reading

    def read_sentinels(self) -> None:
        """Several readings one after the other, where none can be taken for a while."""
        for _ in range(REPEATS):
            self.read_sentinel()

    def sentinel_if_due(self) -> None:
        """Run the sentinel when the last reading is some seconds old."""
        if self.now_s - self.readings[-1].end_s >= SENTINEL_EVERY_S:
            self.read_sentinel()

    def run(self, requests: Requests) -> None:
        """Send `requests`, and keep their steps as one configuration."""
        self.keep_steps(self.engine.replay(requests))

    def keep_steps(self, times: TokenTimes) -> None:
        """Keep the steps of a replay that has just ended, as one configuration."""
        steps = self.engine.take_steps()
        self.num_configurations += 1  # 0 is the sentinel's
        number = np.full(steps.num_steps, self.num_configurations, dtype=np.int64)
        self.parts.append(replace(steps, configuration=number))
        self.advance(last_token_s(times))

    def samples(self) -> StepSamples:
        """All steps so far, with the machine's speed at each."""
        steps = concatenate(self.parts)
        return replace(steps, speed=speed_at(self.readings, steps.start_s))

    def advance(self, now_s: float) -> None:
        """Move the clock on and show progress, in tenths of seconds of the budget."""
        self.now_s = max(self.now_s, now_s)
        if self.progress:
            total = round(10 * self.budget_s)
            self.progress(min(round(10 * self.elapsed_s), total), total)
