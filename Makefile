# Every target needs .venv, built from the pinned lock; the simulator's kernels are compiled into it. Python 3.11 (vLLM's CPU build has wheels for it).
PYTHON ?= python3
BIN := .venv/bin

.PHONY: install check test bench bench-gpu bench-rehearsal bench-fleet bench-pair studies demo dashboard clean

install: .venv/.installed

.venv/.installed: requirements.lock pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install -q --no-deps --disable-pip-version-check -r requirements.lock
	$(BIN)/python -m pip install -q --no-deps --no-build-isolation --disable-pip-version-check -e .
	$(BIN)/python -m tuner.simulator
	touch $@

check: install
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# Two processes for what starts no engine; then the real engines, alone, because they keep time.
test: install
	$(BIN)/python -m pytest -n 2 --dist loadfile -m 'not bench and not engine'
	$(BIN)/python -m pytest -m 'engine and not bench'

bench: install
	$(BIN)/python -m pytest -q -s -m bench tests/benchmarks

bench-gpu: install
	$(BIN)/stallfree fidelity --silicon

bench-rehearsal: install
	$(BIN)/python -m pytest -q -s -m bench tests/benchmarks/test_simulated_against_rehearsed.py

bench-fleet: install
	$(BIN)/python -m pytest -q -s -m bench tests/benchmarks/test_fleet_against_rehearsed.py tests/benchmarks/test_proxy_overhead.py

bench-pair: install
	$(BIN)/python -m pytest -q -s -m bench tests/benchmarks/test_split_pair.py

studies: install
	$(BIN)/python tests/benchmarks/studies_table.py

demo: install
	$(BIN)/stallfree tune studies/quickstart.yaml --out stallfree-runs/quickstart --fresh

dashboard: install
	$(BIN)/stallfree dashboard

clean:
	rm -rf .venv .bench-venv build *.egg-info
