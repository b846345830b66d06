"""Random small cases: settings, traffic with shared prefixes and priorities, a tight KV pool."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from packaging.version import Version

from profiler.engine_config import EngineConfig, drafter_rules
from profiler.traffic.images import Images
from profiler.traffic.trace import Trace
from profiler.versions import alike_settings
from tuner.simulator.build import build_limits, most_slots
from tuner.simulator.difftest.loop import Job
from tuner.simulator.image_build import EncoderSize

Settings = dict[str, Any]


@dataclass(frozen=True)
class Case:
    """What both schedulers are given."""

    config: EngineConfig
    trace: Trace
    num_kv_blocks: int
    encoder: EncoderSize | None = None
    """given where there are images"""
    acceptance: float | tuple[float, ...] | None = None
    """as `simulate` takes it"""


def random_settings(rng: random.Random) -> Settings:
    """Settings over every rule, legal together."""
    budget = rng.choice((8, 24, 32, 64, 100, 256))
    seqs = min(rng.choice((1, 2, 4, 8)), budget)
    settings: Settings = {
        "max_num_batched_tokens": budget,
        "max_num_seqs": seqs,
        "block_size": rng.choice((4, 16)),
        "enable_prefix_caching": rng.random() < 0.7,
        "async_scheduling": rng.random() < 0.5,
        "scheduler_reserve_full_isl": rng.random() < 0.6,
        "watermark": rng.choice((0.0, 0.0, 0.05, 0.3)),
        "max_model_len": rng.choice((128, 256, 4096)),
        "scheduling_policy": rng.choice(("fcfs", "fcfs", "priority")),
    }
    if rng.random() < 0.5:
        settings["long_prefill_token_threshold"] = rng.choice((4, 16, 40, 100))
        settings["long_prefill_token_threshold_adaptive"] = rng.random() < 0.5
    if rng.random() < 0.2:
        settings["max_num_active_seqs"] = rng.randint(1, seqs)
    if rng.random() < 0.3:
        settings["max_num_scheduled_tokens"] = rng.randint(max(1, budget // 8), budget)
    if rng.random() < 0.1:
        make_unchunked(settings)
    if rng.random() < 0.25:
        make_crowded(settings, rng)
    return settings


def make_unchunked(settings: Settings) -> None:
    """Chunked prefill off, which needs a budget of the model length."""
    settings |= {"enable_chunked_prefill": False, "max_model_len": 128}
    settings |= {"max_num_batched_tokens": 256, "max_num_seqs": 8}
    settings.pop("max_num_scheduled_tokens", None)


def make_crowded(settings: Settings, rng: random.Random) -> None:
    """Several partial prefills at once in a tiny pool."""
    settings |= {"max_num_batched_tokens": rng.choice((12, 16, 20)), "max_num_seqs": 8}
    settings |= {"long_prefill_token_threshold": rng.choice((3, 5, 8))}
    settings |= {"scheduler_reserve_full_isl": False, "max_model_len": 256}
    settings |= {"enable_chunked_prefill": True, "watermark": 0.0}
    settings.pop("max_num_scheduled_tokens", None)
    settings.pop("max_num_active_seqs", None)


def random_prefixes(rng: random.Random, prompts: list[int]) -> tuple[int, list[list[int]]]:
    """Prefix block size, and hashes of every prompt: common stems, repeats, own ends."""
    size = rng.choice((1, 4, 5, 16, 24, 32))
    stems = [[1000 * s + i for i in range(200)] for s in range(3)]
    hashes: list[list[int]] = []
    for number, prompt in enumerate(prompts):
        started = -(-prompt // size)
        common = rng.choice((0, rng.randint(0, started), started))
        own = [10_000 + 1000 * number + i for i in range(started - common)]
        whole = rng.choice(stems)[:common] + own
        hashes.append(whole[: rng.choice((started, started, rng.randint(0, started)))])
        if number and rng.random() < 0.2:  # the same prompt again, often block-aligned
            other = rng.randrange(number)
            prompts[number], hashes[number] = prompts[other], list(hashes[other])
    return size, hashes


def random_trace(rng: random.Random, length: int) -> Trace:
    """Some requests that fit `length`; most traces share prefixes, some have priorities."""
    longest = min(rng.choice((20, 60, 120)), length - 2)
    count = rng.randint(3, 25)
    prompts = [rng.randint(1, longest) for _ in range(count)]
    prefixes: dict[str, Any] = {}
    if rng.random() < 0.75:
        size, hashes = random_prefixes(rng, prompts)
        prefixes = {
            "prefix_hashes": [h for of in hashes for h in of],
            "prefix_offsets": np.cumsum([0, *(len(of) for of in hashes)]),
            "prefix_block_tokens": size,
        }
    times, now = [], 0.0
    for _ in range(count):
        times.append(now)
        now += rng.choice((0.0, 0.0, 0.003, 0.01, 0.1, 0.5))
    outputs = [rng.randint(1, 40) for _ in range(count)]
    priority = [rng.randint(0, 3) for _ in range(count)] if rng.random() < 0.8 else None
    return Trace.build(times, prompts, outputs, priority=priority, **prefixes)


def random_drafts(rng: random.Random, settings: Settings) -> float | tuple[float, ...]:
    """Speculation on top of `settings`, which are changed where they clash; its acceptance."""
    method = rng.choice(("ngram", "medusa", "eagle", "eagle3", "mtp", "draft_model", "dflash"))
    drafts = rng.choice((1, 2, 3, 5))
    settings |= {"speculative_method": method, "num_speculative_tokens": drafts}
    rules = drafter_rules(method, drafts)
    room = 1 + drafts + rules.draft_slots + rng.randint(0, 8)
    for name in ("max_num_batched_tokens", "max_num_scheduled_tokens"):
        if name in settings:
            settings[name] = max(settings[name], room)
    if settings.get("long_prefill_token_threshold"):
        settings["long_prefill_token_threshold"] += drafts
    settings["async_scheduling"] = settings["async_scheduling"] and rules.overlaps
    if rng.random() < 0.7:
        return rng.choice((0.0, 0.3, 0.7, 0.9, 1.0))
    weights = [rng.random() for _ in range(drafts + 1)]
    return tuple(weight / sum(weights) for weight in weights)


def random_case(seed: int, speculative: bool | None = None) -> Case:
    """Case number `seed`; the same one every time.

    Every third case speculates; `speculative` says it for all.
    """
    rng = random.Random(seed)
    settings = random_settings(rng)
    length = settings["max_model_len"]
    trace = random_trace(rng, length)
    spare = rng.choice((0, 0, 1, 2, 3, 5, 8, 20, 200))
    acceptance, seldom_full = None, 1
    if seed % 3 == 2 if speculative is None else speculative:
        acceptance, seldom_full = random_drafts(random.Random(f"drafts {seed}"), settings), 0
    config = EngineConfig.from_settings(settings)
    slots = most_slots(trace.prompt_tokens, trace.output_tokens, build_limits(config, 2))
    biggest = -(-int(slots.max() + seldom_full) // settings["block_size"])
    return Case(config, trace, 1 + biggest + spare, acceptance=acceptance)


def adapted(case: Case, version: Version) -> Case:
    """The case with settings that `version` has and is not known to treat otherwise."""
    settings = alike_settings(case.config.settings(), version)
    return replace(case, config=EngineConfig.from_settings(settings))


def random_image_case(seed: int) -> Case:
    """Case number `seed` of those with images: few distinct ones, in a small encoder cache."""
    case = random_case(seed)
    rng = random.Random(-1 - seed)
    sizes = [rng.choice((1, 3, 8, 12, 20, 30, 50)) for _ in range(rng.choice((3, 6, 20)))]
    layouts = [random_images(rng, sizes, 120) for _ in range(3)]
    rows = []
    for prompt in case.trace.prompt_tokens.tolist():
        drawn = rng.choice((layouts[0], *layouts, random_images(rng, sizes, prompt), []))
        rows.append([image for image in drawn if image[0] + image[1] <= prompt])
    images = Images.of_rows(rows)
    settings = case.config.settings()
    largest = int(images.tokens.max(initial=1))
    if rng.random() < 0.3 and settings["max_num_batched_tokens"] >= largest:
        settings["disable_chunked_mm_input"] = True
    derived = max(settings["max_num_batched_tokens"], largest)
    encoder = EncoderSize(derived, derived)
    if rng.random() < 0.7:
        encoder = EncoderSize(largest + rng.choice((0, 5, 40)), largest + rng.choice((0, 5, 40)))
    return replace(
        case,
        config=EngineConfig.from_settings(settings),
        trace=replace(case.trace, images=images),
        encoder=encoder,
    )


def random_images(rng: random.Random, sizes: list[int], prompt: int) -> list[tuple[int, int, int]]:
    """Up to eight images of a prompt, often back to back; the identity is the index of the size."""
    images, at = list[tuple[int, int, int]](), rng.choice((0, 0, rng.randint(0, prompt // 2)))
    while len(images) < rng.choice((1, 8, 8, 8)):
        identity = rng.randrange(len(sizes))
        if at + sizes[identity] > prompt:
            break
        images.append((at, sizes[identity], identity))
        at += sizes[identity] + rng.choice((0, 0, 1, 7))
    return images


def jobs_of(case: Case, frontend_in_s: float) -> list[Job]:
    """The requests of `case` with prompts whose tokens are equal exactly where the hashes are.

    All tokens of a prefix block are one number, given to its hash, the tokens it covers and
    everything before it; tokens beyond the last hash belong to the request alone.
    """
    trace, known = case.trace, dict[tuple[int, int, int], int]()
    size, length = trace.prefix_block_tokens or 1, case.config.max_model_len or 0
    jobs = []
    for number, prompt in enumerate(trace.prompt_tokens.tolist()):
        tokens, block = list[int](), 0
        for value in prefix_hashes_of(trace, number):
            covered = min(size, prompt - len(tokens))
            block = known.setdefault((block, value, covered), len(known) + 1)
            tokens += [block] * covered
        tokens += [OWN_TOKEN + number] * (prompt - len(tokens))
        arrival = float(trace.arrival_s[number])
        jobs.append(
            Job(
                number,
                arrival + frontend_in_s,
                arrival,
                tokens,
                int(min(trace.output_tokens[number], length - prompt)),
                0 if trace.priority is None else int(trace.priority[number]),
                images_of_request(trace, number),
            )
        )
    return jobs


OWN_TOKEN = 100_000_000
"""from here on: tokens of a prompt that are in no other"""


def images_of_request(trace: Trace, number: int) -> list[tuple[int, int, int]]:
    """(start, tokens, identity) of the images of one request."""
    if trace.images is None:
        return []
    own = trace.images.take(np.array([number]))
    return list(zip(own.start.tolist(), own.tokens.tolist(), own.identity.tolist(), strict=True))


def prefix_hashes_of(trace: Trace, number: int) -> list[int]:
    """Prefix hashes of one request."""
    if trace.prefix_hashes is None or trace.prefix_offsets is None:
        return []
    start, end = trace.prefix_offsets[number : number + 2]
    return [int(h) for h in trace.prefix_hashes[start:end]]
