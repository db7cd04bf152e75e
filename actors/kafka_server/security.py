"""What clients are told that ask for security, which this broker or this listener does not have."""

from __future__ import annotations

from typing import Final

NO_AUTHORIZER: Final = "this cluster has no access rules: every client that reaches it may do everything"
NO_AUTHENTICATION: Final = "this listener has no SASL: its clients do not authenticate by it"
