#!/usr/bin/env bash
# Make the virtual environment with the first Python >= 3.12 that really runs, from hashed pins.
set -euo pipefail
venv=$1

fits() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 12))' >/dev/null 2>&1; }

python=""
# A version manager's shim may exist and still fail to run, so each candidate is tried.
for candidate in python3.13 python3.14 python3.12 python3 python \
    "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.13*/bin/python "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.1[2-9]*/bin/python; do
    if fits "$candidate"; then
        python=$candidate
        break
    fi
done
if [ -z "$python" ]; then
    echo "Branchgate needs Python 3.12 or newer; none was found." >&2
    exit 1
fi

echo "Setting up $venv with $("$python" --version) (about a minute)…"
rm -rf "$venv"
"$python" -m venv "$venv"
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.txt
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
