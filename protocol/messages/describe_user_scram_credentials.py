"""DescribeUserScramCredentials: lists which SCRAM credentials users have."""

from eagleray.protocol.messages.annotations import Int8, Int16, Int32, Message, Wire, WireStruct


class UserName(WireStruct, frozen=True):
    """A user to show."""

    name: str = ""


class DescribeUserScramCredentialsRequest(Message, frozen=True):
    """Users to show; null or empty means all."""

    wire = Wire(api_key=50, versions=(0, 0), flexible_since=0)

    users: tuple[UserName, ...] | None = ()


class CredentialInfo(WireStruct, frozen=True):
    """A mechanism for which the user has a credential."""

    mechanism: Int8 = 0
    iterations: Int32 = 0


class DescribeUserScramCredentialsResult(WireStruct, frozen=True):
    """The credentials of one user."""

    user: str = ""
    error_code: Int16 = 0
    error_message: str | None = ""
    credential_infos: tuple[CredentialInfo, ...] = ()


class DescribeUserScramCredentialsResponse(Message, frozen=True):
    """The credentials of every user."""

    wire = Wire(api_key=50, versions=(0, 0), flexible_since=0)

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = ""
    results: tuple[DescribeUserScramCredentialsResult, ...] = ()
