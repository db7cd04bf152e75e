"""Look for bytes that break the codec of messages.

python fuzz/fuzz_messages.py [libFuzzer options] [corpus folders], for example -max_total_time=120

Whatever the bytes: nothing but our own errors is raised, the compiled codec and the interpreter agree about them, and
what could be decoded is the same again after it was encoded anew.
"""

import sys
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["eagleray.protocol"]):
    from eagleray.protocol.codec import (
        APIS,
        MalformedMessage,
        UnknownApi,
        UnsupportedVersion,
        decode_message,
        decode_request,
        decode_response,
        decode_versioned,
        encode_message,
        encode_request,
        encode_response,
        encode_versioned,
        find_api,
        read_prefix,
    )
    from eagleray.protocol.codec.source import Source
    from eagleray.protocol.messages.annotations import Message
    from eagleray.protocol.messages.headers import RequestHeader

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.support.message_samples import samples
from tests.support.messages import MESSAGES_AND_VERSIONS, STORED
from tests.unit.protocol import interpreter

Outcome = Message | type[Exception]


def message(data: bytes) -> None:
    """Take them for a message by itself; the first two bytes say which and in which version."""
    kind, version = MESSAGES_AND_VERSIONS[int.from_bytes(data[:2]) % len(MESSAGES_AND_VERSIONS)]
    body = data[2:]
    compiled = compiled_outcome(kind, version, body)
    assert compiled == compiled_outcome(kind, version, memoryview(body))
    assert compiled == interpreted_outcome(kind, version, body)
    if isinstance(compiled, Message):
        encoded = encode_message(compiled, version)
        assert encoded == interpreter.encode(compiled, version)
        assert decode_message(kind, version, encoded) == compiled


def request(data: bytes) -> None:
    """Take them for a request with its header."""
    try:
        decoded = decode_request(data)
    except (MalformedMessage, UnknownApi, UnsupportedVersion):
        return
    header, body = decoded.header, decoded.body
    version = header.request_api_version
    api = find_api(header.request_api_key)
    parts = [(RequestHeader, api.request_header_version(version)), (api.request, version)]
    assert interpreter.decode_sequence(parts, data) == [header, body]
    again = encode_request(body, version, header.correlation_id, header.client_id)
    assert decode_request(again[4:]) == decoded


def response(data: bytes) -> None:
    """Take them for a response with its header; the first two bytes say to which API and version."""
    api = list(APIS.values())[int.from_bytes(data[:1]) % len(APIS)]
    lowest, highest = api.versions
    version = lowest + int.from_bytes(data[1:2]) % (highest - lowest + 1)
    try:
        decoded = decode_response(data[2:], api.key, version)
    except MalformedMessage:
        return
    # An ApiVersionsResponse may have been read in version 0, and then fits every version.
    again = encode_response(decoded.body, version, decoded.header.correlation_id)
    assert decode_response(again[4:], api.key, version) == decoded


def stored(data: bytes) -> None:
    """Take them for a record of a log, behind its record type or version."""
    kind = STORED[int.from_bytes(data[:1]) % len(STORED)]
    try:
        decoded = decode_versioned(kind, data[1:])
    except (MalformedMessage, UnsupportedVersion):
        return
    _, highest = kind.wire.versions
    version = highest if kind.wire.record_type is not None else min(read_prefix(data[1:]), highest)
    assert decode_versioned(kind, encode_versioned(decoded, version)) == decoded


def compiled_outcome(kind: type[Message], version: int, data: bytes | memoryview) -> Outcome:
    try:
        return decode_message(kind, version, data)
    except MalformedMessage as error:
        return type(error)


def interpreted_outcome(kind: type[Message], version: int, data: bytes) -> Outcome:
    try:
        return interpreter.decode(kind, version, data)
    except MalformedMessage as error:
        return type(error)


TARGETS = (message, request, response, stored)


def fuzz(data: bytes) -> None:
    """Let the first byte choose what the others are taken for."""
    if data:
        TARGETS[data[0] % len(TARGETS)](data[1:])


def seeds() -> list[bytes]:
    """Return sound messages of all sorts, which random bytes would take long to become."""
    planted = []
    for index, (kind, version) in enumerate(MESSAGES_AND_VERSIONS):
        for sample in samples(kind, version)[:2]:
            choice = bytes([TARGETS.index(message)]) + index.to_bytes(2)
            planted.append(choice + encode_message(sample, version))
    for index, api in enumerate(APIS.values()):
        lowest, highest = api.versions
        for version in {lowest, highest}:
            frame = encode_request(samples(api.request, version)[1], version, 7, "client")
            planted.append(bytes([TARGETS.index(request)]) + frame[4:])
            frame = encode_response(samples(api.response, version)[1], version, 7)
            planted.append(bytes([TARGETS.index(response), index, version - lowest]) + frame[4:])
    for index, kind in enumerate(STORED):
        sample = samples(kind, kind.wire.versions[1])[1]
        planted.append(bytes([TARGETS.index(stored), index]) + encode_versioned(sample))
    return planted


def plant_seeds(folder: Path) -> None:
    """Give an empty corpus something to start from."""
    if not any(folder.iterdir()):
        for index, seed in enumerate(seeds()):
            (folder / f"seed-{index:04}").write_bytes(seed)


def instrument_generated_code() -> None:
    """Have generated functions tell libFuzzer what they cover, and generate them all before it starts."""
    compile_plainly = Source.compile
    Source.compile = lambda source: atheris.instrument_func(compile_plainly(source))
    for seed in seeds():
        fuzz(seed)


def main() -> None:
    """Run until libFuzzer's options say stop."""
    instrument_generated_code()
    for argument in sys.argv[1:]:
        if Path(argument).is_dir():
            plant_seeds(Path(argument))
    atheris.Setup(sys.argv, fuzz)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
