#!/bin/sh
# Creates a virtual environment with the first Python that can: scripts/create_venv.sh DIRECTORY
#
# PYTHON=/path/to/python chooses the interpreter. Otherwise python3 is tried, then the versions by name,
# because the python3 of a long-lived distribution is often older than what we need.
set -eu

directory=$1
version_check='import sys; sys.exit(not (3, 11) <= sys.version_info[:2])'
version_print='import sys; print("%d.%d" % sys.version_info[:2])'

# A name on the PATH may be a shim for a Python that is not there, so it is run, not only looked up.
is_new_enough() { "$1" -c "$version_check" >/dev/null 2>&1; }
can_create() { "$1" -c 'import ensurepip, venv' >/dev/null 2>&1; }

without_ensurepip=
for candidate in ${PYTHON:-python3 python3.11 python3.12 python3.13}; do
    is_new_enough "$candidate" || continue
    if can_create "$candidate"; then
        echo "Creating $directory with $("$candidate" --version)"
        # --clear, because what is there has no working Python.
        "$candidate" -m venv --clear "$directory" && exit 0
        rm -rf "$directory"
        exit 1
    fi
    without_ensurepip=${without_ensurepip:-$candidate}
done

if [ -n "$without_ensurepip" ]; then
    version=$("$without_ensurepip" -c "$version_print")
    cat >&2 <<MESSAGE
Python $version is here, but it cannot create virtual environments: its venv or ensurepip module is missing.
On Debian and Ubuntu these are a package of their own:

    apt-get install python$version-venv

Then run make again.
MESSAGE
else
    cat >&2 <<MESSAGE
Eagleray needs Python 3.11 or newer. Looked for: ${PYTHON:-python3, python3.11, python3.12, python3.13}.
python3 is $(python3 --version 2>/dev/null || echo 'not on the PATH').
Install a newer one, or name it: make PYTHON=/path/to/python3.11
MESSAGE
fi
exit 1
