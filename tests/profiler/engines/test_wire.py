"""The file of NIXL's reads, as it grows."""

from __future__ import annotations

from pathlib import Path

from profiler.engines.wire import take_reads, wire_reader, wire_writer


def test_reads_come_back_as_written(tmp_path: Path) -> None:
    reader = wire_reader(tmp_path / "steps.f64")
    assert take_reads(reader).seconds.size == 0
    writer = wire_writer(tmp_path / "steps.f64")
    writer.write(0.002, 0.001, 4096)
    writer.write(0.5, 0.0, 131072)
    reads = take_reads(reader)
    assert reads.seconds.tolist() == [0.002, 0.5]
    assert reads.post_s.tolist() == [0.001, 0.0]
    assert reads.size_bytes.tolist() == [4096.0, 131072.0]
    assert take_reads(reader).size_bytes.size == 0
