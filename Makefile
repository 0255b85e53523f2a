# Two commands do everything on a fresh machine: `make demo` and `make test`.
VENV := .venv
PY := $(VENV)/bin/python
STAMP := $(VENV)/.made

.PHONY: setup demo test lint bench clean

setup: $(STAMP)

$(STAMP): requirements/dev.txt pyproject.toml scripts/make_venv.sh
	@bash scripts/make_venv.sh $(VENV)
	@touch $(STAMP)

demo: setup
	@$(PY) manage.py demo $(ARGS)

test: setup
	@bash scripts/run_tests.sh $(ARGS)

lint: setup
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports
	$(VENV)/bin/djade --check --target-version 6.1 $$(git ls-files 'templates/*.html')
	$(PY) scripts/lint_templates.py

bench: setup
	@$(PY) -m benchmarks $(ARGS)

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis
