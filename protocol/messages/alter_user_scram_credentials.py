"""AlterUserScramCredentials: sets and removes SCRAM credentials."""

from eagleray.protocol.messages.annotations import Int8, Int16, Int32, Message, Wire, WireStruct


class ScramCredentialDeletion(WireStruct, frozen=True):
    """A credential to remove."""

    name: str = ""
    mechanism: Int8 = 0


class ScramCredentialUpsertion(WireStruct, frozen=True):
    """A credential to add or replace."""

    name: str = ""
    mechanism: Int8 = 0
    iterations: Int32 = 0
    salt: bytes = b""
    salted_password: bytes = b""

    def __repr__(self) -> str:
        return f"ScramCredentialUpsertion(name={self.name!r}, mechanism={self.mechanism}, the rest is secret)"


class AlterUserScramCredentialsRequest(Message, frozen=True):
    """Credentials to remove and to set."""

    wire = Wire(api_key=51, versions=(0, 0), flexible_since=0)

    deletions: tuple[ScramCredentialDeletion, ...] = ()
    upsertions: tuple[ScramCredentialUpsertion, ...] = ()


class AlterUserScramCredentialsResult(WireStruct, frozen=True):
    """The outcome for one user."""

    user: str = ""
    error_code: Int16 = 0
    error_message: str | None = ""


class AlterUserScramCredentialsResponse(Message, frozen=True):
    """The outcome for every user."""

    wire = Wire(api_key=51, versions=(0, 0), flexible_since=0)

    throttle_time_ms: Int32 = 0
    results: tuple[AlterUserScramCredentialsResult, ...] = ()
