"""What clients are told who ask for security that is not there."""

from __future__ import annotations

from typing import Final

NO_AUTHORIZER: Final = "this cluster has no access rules: whoever reaches it may do everything"
NO_AUTHENTICATION: Final = "this cluster's listeners are plain: nobody authenticates, and nobody has credentials"
