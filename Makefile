# Every target needs .venv, built from the pinned lock; the simulator's kernels are compiled into it. Python 3.11 (vLLM's CPU build has wheels for it).
PYTHON ?= python3
BIN := .venv/bin

.PHONY: install check test bench bench-gpu bench-rehearsal bench-fleet bench-pair studies demo dashboard browser bench-dashboard screenshots clean

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

# Chromium, which the tests of the dashboard drive; quick where there is one.
browser:
	@for name in "$$STALLFREE_CHROMIUM" chromium chromium-browser google-chrome; do \
		if command -v "$$name" >/dev/null; then exit 0; fi; \
	done; \
	if command -v apt-get >/dev/null && [ "$$(id -u)" = 0 ]; then \
		apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium fonts-liberation; \
	else \
		echo "no Chromium: install it, or set STALLFREE_CHROMIUM to its path" >&2; exit 1; \
	fi

# Two processes for what starts no engine; then the real engines, alone, because they keep time.
test: install browser
	$(BIN)/python -m pytest -n 2 --dist loadfile -m 'not bench and not engine'
	$(BIN)/python -m pytest -m 'engine and not bench'

bench: install browser
	$(BIN)/python -m pytest -q -s -m bench tests/benchmarks

bench-dashboard: install browser
	$(BIN)/python -m pytest -q -s -m bench tests/benchmarks/test_dashboard_time.py

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

# Pictures of every page: make screenshots STORAGE=stallfree-runs PICTURES=screenshots
STORAGE ?= stallfree-runs
PICTURES ?= screenshots
screenshots: install browser
	$(BIN)/python -m tests.dashboard.browser.screenshots $(STORAGE) $(PICTURES)

clean:
	rm -rf .venv .bench-venv build *.egg-info
