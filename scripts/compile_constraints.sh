#!/bin/sh
# Pins every package that any extra or group may install: scripts/compile_constraints.sh VENV OUTPUT
#
# One file serves all Pythons and platforms. It names no index, because each machine has its own.
set -eu

uv=$1/bin/uv
output=$2
compiled=$output.new
trap 'rm -f "$compiled"' EXIT

# Pre-releases come only where pyproject.toml pins one, or where a package has nothing else.
"$uv" pip compile --quiet --universal --python-version 3.11 --all-extras --group dev --group fuzz \
    --prerelease if-necessary-or-explicit --upgrade --no-header --annotation-style line \
    --output-file "$compiled" pyproject.toml
{
    echo '# The version of every package that a set-up may install. Written by `make lock`; do not edit.'
    cat "$compiled"
} >"$output"
