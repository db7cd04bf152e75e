"""Processes that come and go: what tests ask of those that may end between one look and the next."""

import psutil

GONE_S = 60


def children_of(process, *, recursive=False):
    """The children of a process, none of one that is gone."""
    try:
        return process.children(recursive=recursive)
    except psutil.NoSuchProcess:
        return []


def has_name(process, name):
    """Whether a process has this name; not any more when it is gone."""
    try:
        return process.name() == name
    except psutil.NoSuchProcess:
        return False


def has_word(process, word):
    """Whether a process was started with this word; not any more when it is gone."""
    try:
        return word in process.cmdline()
    except psutil.NoSuchProcess:
        return False


def variable_of(process, name):
    """A variable in the environment of a process; None of one that is gone, or that is not ours to ask."""
    try:
        return process.environ().get(name)
    except psutil.Error:
        return None


def kill_first(processes):
    """End the first that is still there with kill -9, and return it; None where all are gone."""
    for process in processes:
        try:
            process.kill()
        except psutil.NoSuchProcess:
            continue
        process.wait(GONE_S)
        return process
    return None
