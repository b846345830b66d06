"""Laying out the states of all replicas of a fleet on end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from tuner.simulator.fleet_arrays import NUM_CUTS
from tuner.simulator.pool_arrays import Pool, Prefixes
from tuner.simulator.state import IntArray, Log, State, Tally
from tuner.simulator.transfer_arrays import Transfers

AnyArray = npt.NDArray[Any]


class Layout(NamedTuple):
    """See `FleetArrays`."""

    flat: State
    transfers: Transfers
    at: IntArray


class Tiles(NamedTuple):
    """One empty replica of each pool, and how many there are."""

    states: Sequence[State]
    numbers: Sequence[int]

    def on_end(self, pick: Callable[[State], Any]) -> Any:
        """The arrays `pick` of all replicas in one."""
        whole, at = self.unwritten(pick), 0
        for state, number in zip(self.states, self.numbers, strict=True):
            size = pick(state).size
            whole[at : at + number * size].reshape(number, size)[:] = pick(state)
            at += number * size
        return whole.view(np.recarray) if whole.dtype.names else whole

    def in_rows(self, pick: Callable[[State], AnyArray]) -> Any:
        """The arrays `pick`, which are of equal length, as one row for each replica."""
        parts = [np.tile(pick(s), (n, 1)) for s, n in zip(self.states, self.numbers, strict=True)]
        return np.concatenate(parts)

    def unwritten(self, pick: Callable[[State], AnyArray]) -> AnyArray:
        """Room for the arrays `pick` of all replicas. Pages that are not used cost nothing."""
        size = sum(pick(s).size * n for s, n in zip(self.states, self.numbers, strict=True))
        return np.empty(size, dtype=pick(self.states[0]).dtype)


def lay_out(tiles: Tiles) -> Layout:
    """The states of all replicas."""
    first = tiles.states[0]
    flat = State(
        requests=tiles.on_end(lambda s: s.requests),
        progress=tiles.on_end(lambda s: s.progress),
        links=tiles.on_end(lambda s: s.links),
        tally=lay_out_tally(tiles),
        log=Log(*(tiles.unwritten(lambda s, k=k: s.log[k]) for k in range(2))),  # type: ignore[misc]
        steps=first.steps,
        record=first.record,
        prefixes=lay_out_prefixes(tiles),
        pool=lay_out_pool(tiles),
        vision=None,
        transfers=None,
    )
    sizes = np.array([cut_sizes(state) for state in tiles.states], dtype=np.int64)
    at = np.zeros((sum(tiles.numbers) + 1, NUM_CUTS), dtype=np.int64)
    at[1:] = np.cumsum(np.repeat(sizes, tiles.numbers, axis=0), axis=0)
    return Layout(flat, lay_out_transfers(tiles), at)


def cut_sizes(state: State) -> list[int]:
    """Lengths of the arrays that are cut at `FleetArrays.at`, in order of its columns."""
    pool = state.pool
    return [
        state.requests.visible_s.size,
        state.tally.heap.size,
        state.prefixes.start.size,
        cast(AnyArray, pool.blocks).size,
        pool.buckets.size,
        pool.table.size,
        pool.free_rows.size,
        state.tally.crossing.size,
        state.tally.ring.size,
        state.log.gap_s.size,
    ]


def lay_out_tally(tiles: Tiles) -> Tally:
    """Aggregates: those of equal length in rows."""
    rows = ("counts", "times", "decodes", "slow", "late")
    ends = ("crossing", "heap", "ring")
    return Tally(
        itl_limit_s=tiles.states[0].tally.itl_limit_s,
        **{name: tiles.in_rows(lambda s, n=name: getattr(s.tally, n)) for name in rows},  # type: ignore[misc]
        **{name: tiles.on_end(lambda s, n=name: getattr(s.tally, n)) for name in ends},  # type: ignore[misc]
    )


def lay_out_prefixes(tiles: Tiles) -> Prefixes:
    """Prefixes: the numbers of the prefix blocks are the same for all."""
    own = ("start", "shared", "private", "findable")
    ids = max((state.prefixes.ids for state in tiles.states), key=len)
    return Prefixes(
        ids=ids,
        **{name: tiles.on_end(lambda s, n=name: getattr(s.prefixes, n)) for name in own},  # type: ignore[misc]
    )


def lay_out_pool(tiles: Tiles) -> Pool:
    """KV blocks."""
    names = ("blocks", "holders", "buckets", "free_rows", "cross_ends")
    return Pool(
        table=tiles.unwritten(lambda s: s.pool.table),
        **{name: tiles.on_end(lambda s, n=name: getattr(s.pool, n)) for name in names},  # type: ignore[misc]
    )


def lay_out_transfers(tiles: Tiles) -> Transfers:
    """Transfers; the rules are those of the first replica and not read."""
    states = [cast(Any, state.transfers) for state in tiles.states]
    moving = Tiles(states, tiles.numbers)
    ends = ("moves", "released", "released_s", "started")
    return Transfers(
        rules=states[0].rules,
        **{name: moving.on_end(lambda t, n=name: getattr(t, n)) for name in ends},  # type: ignore[misc]
        **{name: moving.in_rows(lambda t, n=name: getattr(t, n)) for name in ("counts", "times")},  # type: ignore[misc]
    )
