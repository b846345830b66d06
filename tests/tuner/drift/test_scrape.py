"""Metrics from files and addresses."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client import Histogram as PrometheusHistogram

from profiler.errors import InputError
from tuner.drift import scrape
from tuner.drift.scrape import parse_scrape, read_metrics, read_version

SAVED = Path(__file__).with_name("vllm_metrics.txt")
TTFT = "vllm:time_to_first_token_seconds"


def test_a_saved_scrape_sums_its_engines() -> None:
    seen = parse_scrape(read_metrics(str(SAVED)), "saved")
    assert list(seen.histograms) == [TTFT]
    histogram = seen.histograms[TTFT]
    assert histogram.bounds.tolist() == [0.1, 0.25, 2.5, np.inf]
    assert histogram.at_most.tolist() == [200, 280, 299, 300]
    assert histogram.count == 300
    assert histogram.mean == pytest.approx(40 / 300)
    assert histogram.shares == pytest.approx([2 / 3, 280 / 300, 299 / 300])
    assert seen.cache["num_gpu_blocks"] == "2741"


def test_what_the_client_library_of_vllm_writes() -> None:
    registry = CollectorRegistry()
    made = PrometheusHistogram(
        TTFT, "Time to first token.", ["model_name", "engine"], buckets=(0.1, 1), registry=registry
    )
    for engine, values in (("0", (0.05, 0.5)), ("1", (0.1, 7.0, 0.2))):
        for value in values:
            made.labels(model_name="a model", engine=engine).observe(value)
    histogram = parse_scrape(generate_latest(registry).decode(), "made").histograms[TTFT]
    assert histogram.bounds.tolist() == [0.1, 1, np.inf]
    assert histogram.at_most.tolist() == [2, 4, 5]
    assert histogram.mean == pytest.approx(7.85 / 5)


def test_two_scrapes_are_what_lies_between_them() -> None:
    earlier = parse_scrape(SAVED.read_text(), "saved")
    text = SAVED.read_text().replace('le="+Inf",model_name="tiny"} 200.0', 'le="+Inf"} 230.0')
    text = text.replace('le="2.5",model_name="tiny"} 199.0', 'le="2.5"} 204.0')
    later = parse_scrape(text.replace('"tiny"} 24.5', '"tiny"} 204.5'), "later")
    between = later.since(earlier).histograms[TTFT]
    assert between.at_most.tolist() == [0, 0, 5, 30]
    assert between.mean == pytest.approx(180 / 30)
    with pytest.raises(InputError, match="counted less"):
        earlier.since(later)
    other = text.replace('le="0.25"', 'le="0.2"')
    with pytest.raises(InputError, match="other buckets"):
        parse_scrape(other, "other").since(earlier)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<html><body>Not here</body></html>", "not in Prometheus' text format"),
        (SAVED.read_text().replace('le="+Inf"', 'le="9"'), "end at \\+Inf"),
        (SAVED.read_text().replace("} 190.0", "} 19.0").replace("} 90.0", "} 9.0"), "cumulative"),
        (SAVED.read_text().replace('le="0.1",', ""), "not in Prometheus' text format"),
    ],
)
def test_broken_text_is_refused(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        parse_scrape(text, "saved")
    assert "\n" not in str(caught.value)


def test_files_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        read_metrics(str(tmp_path / "none.txt"))
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="no text"):
        read_metrics(str(tmp_path / "binary"))
    monkeypatch.setattr(scrape, "MOST_BYTES", 100)
    with pytest.raises(InputError, match="larger than 100 bytes"):
        read_metrics(str(SAVED))
    assert read_version(str(SAVED)) is None


class _Server(BaseHTTPRequestHandler):
    answers: ClassVar[dict[str, tuple[int, bytes]]] = {
        "/metrics": (200, SAVED.read_bytes()),
        "/version": (200, b'{"version": "0.32.0"}'),
        "/odd/metrics": (200, b"\xff\xfe"),
        "/odd/version": (200, b"[1]"),
        "/moved": (302, b""),
    }

    def do_GET(self) -> None:
        status, body = self.answers.get(self.path, (404, b"nothing"))
        self.send_response(status)
        if status == 302:
            self.send_header("Location", "/metrics")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Says nothing."""


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Server) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


def test_an_address_tells_metrics_and_version(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert TTFT in parse_scrape(read_metrics(f"{address}/metrics"), "x").histograms
    assert read_version(f"{address}/metrics") == "0.32.0"
    assert read_version(f"{address}/odd/metrics") is None
    assert read_version(f"{address}/other/metrics") is None
    for path, message in (
        ("moved", "answers 302"),
        ("none", "answers 404"),
        ("odd/metrics", "no text"),
    ):
        with pytest.raises(InputError, match=message):
            read_metrics(f"{address}/{path}")
    monkeypatch.setattr(scrape, "MOST_BYTES", 100)
    with pytest.raises(InputError, match="more than 100 bytes"):
        read_metrics(f"{address}/metrics")


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("http://user:secret@127.0.0.1:9/metrics?token=secret", "127.0.0.1:9/metrics cannot be"),
        ("file:///etc/passwd", "must be http"),
        ("ftp://host/metrics", "must be http"),
        ("http:///metrics", "must be http"),
        ("http://host:port/metrics", "no address"),
    ],
)
def test_other_addresses_are_one_clear_line(source: str, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        read_metrics(source)
    assert "\n" not in str(caught.value) and "secret" not in str(caught.value)
