#!/bin/sh
# Checks the types and the layers of the installed package: scripts/check_installed.sh VENV DIRECTORY
#
# The folders of the repository get their real names (protocol/ is eagleray.protocol) only when installed,
# and neither mypy nor import-linter follows setuptools' editable finder. Both put the current directory
# first on their path, so both run inside a plain installation.
set -eu

repository=$(cd "$(dirname "$0")/.." && pwd)
venv=$repository/$1
installed=$repository/$2
work=$installed.work
pyproject=$repository/pyproject.toml

# setuptools would build in the tree, and keep there what has since been deleted from it.
rm -rf "$installed" "$work"
mkdir -p "$work"
printf '[build]\nbuild_base = %s\n[egg_info]\negg_base = %s\n' "$work" "$work" >"$work/distutils.cfg"
DIST_EXTRA_CONFIG=$work/distutils.cfg "$venv/bin/uv" pip install --quiet --python "$venv/bin/python" \
    --no-deps --no-build-isolation --target "$installed" "$repository"
cd "$installed"

echo 'mypy, strict:'
status=0
"$venv/bin/mypy" --config-file "$pyproject" --cache-dir "$repository/.mypy_cache" -p eagleray \
    >"$work/mypy.txt" || status=$?
# A message names the file that a person would edit.
sed -E 's#^eagleray/(protocol|broker|actors|pipelines)/#\1/#' "$work/mypy.txt"
[ "$status" -eq 0 ] || exit "$status"

echo 'import-linter:'
"$venv/bin/lint-imports" --config "$pyproject" --no-cache --no-logo
