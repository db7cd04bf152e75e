"""Everything that a client raises, under the name that applications import it by.

    from eagleray.errors import AbortableError, FatalError

`eagleray.client.errors` defines them, and says which of them asks an application to do what.
"""

from eagleray.client.errors import *  # noqa: F403 - all of them, so that a new one is never missing here
from eagleray.protocol.errors import ErrorCode as ErrorCode  # noqa: PLC0414 - exported
