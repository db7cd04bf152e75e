"""A real PostgreSQL for the tests that need one, reached by a socket in its own folder."""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.clusters import until

KNOWN_FOLDERS = "usr/lib/postgresql/*/bin"
"""Debian keeps the server out of the PATH."""

ACCOUNTS = ("postgres", "nobody")
STOP_S = 60


def require_postgres():
    """Skip where there is no PostgreSQL; in continuous integration it has to be there. Returns its two programs."""
    folders = os.pathsep.join([os.environ.get("PATH", ""), *map(str, sorted(Path("/").glob(KNOWN_FOLDERS)))])
    programs = [shutil.which(name, path=folders) for name in ("initdb", "postgres")]
    if None in programs:
        reason = "there is no PostgreSQL server; scripts/ensure_java.py --postgres installs it"
        pytest.fail(reason, pytrace=False) if os.environ.get("CI") else pytest.skip(reason)
    return programs


@contextmanager
def postgres():
    """Run a server with an empty database; gives where it is, as psycopg takes it."""
    initdb, program = require_postgres()
    # Not in the folder of the test: the server may run as another user, and its socket has to have a short name.
    folder = Path(tempfile.mkdtemp(prefix="eagleray-postgres-"))
    account = _account()
    try:
        if account:
            shutil.chown(folder, account["user"], account["group"])
        made = (initdb, "-D", folder / "data", "-U", "postgres", "--auth=trust", "--no-sync", "-E", "UTF8")
        subprocess.run(made, check=True, capture_output=True, cwd=folder, **account)
        with (folder / "log").open("wb") as log:
            options = ("-h", "", "-k", folder, "-F")
            server = subprocess.Popen(
                (program, "-D", folder / "data", *options), stdout=log, stderr=log, cwd=folder, **account
            )
        try:
            until(lambda: _answers(server, folder), "PostgreSQL answers")
            yield f"host={folder} user=postgres dbname=postgres"
        finally:
            server.send_signal(signal.SIGINT)
            server.wait(STOP_S)
    finally:
        shutil.rmtree(folder)


def _account():
    """Whom the server runs as: it refuses to be root's."""
    if os.geteuid() != 0:
        return {}
    known = {entry.pw_name: entry for entry in pwd.getpwall()}
    found = next(known[name] for name in ACCOUNTS if name in known)
    return {"user": found.pw_uid, "group": found.pw_gid, "extra_groups": []}


def _answers(server, folder):
    import psycopg

    assert server.poll() is None, (folder / "log").read_text()
    try:
        psycopg.connect(f"host={folder} user=postgres dbname=postgres").close()
    except psycopg.OperationalError:
        return False
    return True
