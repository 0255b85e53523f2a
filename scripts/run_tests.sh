#!/usr/bin/env bash
# Run the tests on the database and broker of the environment (SQLite and the filesystem by default).
set -euo pipefail
# With it every test process would compile the whole tree again.
unset PYTHONDONTWRITEBYTECODE
exec .venv/bin/python -m pytest -n 4 --dist loadgroup --no-loadscope-reorder -q "$@"
