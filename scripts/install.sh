#!/bin/sh
# Installs what uv is told to into a virtual environment, at the pinned versions:
# scripts/install.sh VENV [arguments of `uv pip install`...]
set -eu

venv=$1
shift

pip_setting() { "$venv/bin/python" -m pip config get "global.$1" 2>/dev/null || true; }

# uv does not read pip's configuration, where many machines name their own index and certificates.
index=${UV_DEFAULT_INDEX:-${PIP_INDEX_URL:-$(pip_setting index-url)}}
certificates=${SSL_CERT_FILE:-${PIP_CERT:-$(pip_setting cert)}}
if [ -n "$index" ]; then export UV_DEFAULT_INDEX="$index"; fi
if [ -n "$certificates" ]; then export SSL_CERT_FILE="$certificates"; fi

exec "$venv/bin/uv" pip install --python "$venv/bin/python" \
    --constraints constraints.txt --build-constraints constraints.txt "$@"
