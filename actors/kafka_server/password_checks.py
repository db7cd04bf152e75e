"""Passwords that clients send as they are: verified in a thread, which takes milliseconds, one after another."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from eagleray.broker.security.sasl import VerifyPassword
from eagleray.broker.security.scram import is_password_of

MOST_WAITING: Final = 1000
"""Of so many verifications the last waits for a few seconds; a client beyond them is refused at once."""


class PasswordChecks:
    """Owns: one thread, from the first verification on. All of PLAIN together take one core at the most."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._thread: ThreadPoolExecutor | None = None
        self._waiting = 0

    async def is_right(self, question: VerifyPassword) -> bool:
        """Whether the password is the one of a credential; also False where too many wait."""
        if self._waiting >= MOST_WAITING:
            return False
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, "password checks")
        self._waiting += 1
        try:
            return await self._loop.run_in_executor(self._thread, _is_right, question)
        finally:
            self._waiting -= 1

    def close(self) -> None:
        """Begin no more verifications."""
        if self._thread is not None:
            self._thread.shutdown(wait=False, cancel_futures=True)


def _is_right(question: VerifyPassword) -> bool:
    try:
        return any(
            is_password_of(mechanism, credential, question.password) for mechanism, credential in question.candidates
        )
    except UnicodeEncodeError:
        return False
