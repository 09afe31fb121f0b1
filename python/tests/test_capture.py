"""Opening, looking, iterating: what Python gives is what the program lists."""

import itertools

import pytest

import backsight
from conftest import CAPTURES


def hexadecimal(address):
    return None if address is None else int(address, 16)


def flat(listed: dict) -> dict:
    """The members of a listed object, with those of objects inside as `object.member`."""
    members = {}
    for name, value in listed.items():
        if isinstance(value, dict):
            members.update({f"{name}.{inner}": one for inner, one in value.items()})
        else:
            members[name] = value
    return members


def same(python, listed) -> bool:
    return python == listed or isinstance(listed, str) and listed.startswith("0x") and python == int(listed, 16)


def test_a_capture_says_what_is_in_it():
    capture = backsight.open(CAPTURES / "first")
    assert capture.format == "snapshot" or capture.format == "trace package"
    assert [buffer.name for buffer in capture.buffers] != []
    (source,) = capture.sources
    assert (source.id, source.protocol) == (0x10, "etm4")
    assert source.buffer == capture.buffers[0].name
    assert "ETM" in source.configuration
    assert repr(capture).startswith("<Capture ")


def test_packets_are_those_that_the_program_lists(bundled, listing):
    expected = listing("packets", bundled)
    packets = list(backsight.open(bundled).packets())
    assert len(packets) == len(expected) > 0
    for packet, listed in zip(packets, expected):
        listed = flat(listed)
        assert packet.kind == listed.pop("packet")
        assert (packet.id, packet.index, packet.length) == (listed.pop("id"), listed.pop("index"), listed.pop("length"))
        assert packet.bytes.hex() == listed.pop("bytes")
        listed.pop("buffer", None)
        assert set(packet.fields) == set(listed)
        assert all(same(packet[name], value) for name, value in listed.items()), packet


def test_execution_is_what_the_program_lists(bundled, listing):
    expected = listing("flow", bundled)
    events = list(backsight.open(bundled).execution())
    assert len(events) == len(expected) > 0
    named = {"function", "function_offset", "file", "line", "module", "module_offset", "buffer", "hart"}
    for event, listed in zip(events, expected):
        listed = flat(listed)
        assert event.kind == listed.pop("event")
        assert (event.id, event.index) == (listed.pop("id"), listed.pop("index"))
        assert all(same(event[name], value) for name, value in listed.items() if name not in named), event


def test_fields_are_attributes_too():
    capture = backsight.open(CAPTURES / "calls-riscv64")
    event = next(event for event in capture.execution() if event.kind == "range")
    assert event.start == event["start"] == event.fields["start"]
    assert capture.function_at(event.start) == "_start"
    with pytest.raises(AttributeError, match="`range` has no field `colour`"):
        event.colour
    with pytest.raises(KeyError):
        event["colour"]


def test_iteration_can_end_early():
    capture = backsight.open(CAPTURES / "first")
    assert len(list(itertools.islice(capture.packets(), 3))) == 3
    assert len(list(capture.packets(source=0x10))) == len(list(capture.packets()))


def test_a_bare_file_is_opened_with_its_protocol():
    capture = backsight.open(
        CAPTURES / "first" / "trace.bin",
        protocol="etm4",
        framing="coresight",
        config=["TRCCONFIGR=0x1841", "context_id=32"],
    )
    assert capture.format == "bare file"
    assert sum(1 for _ in capture.packets()) == sum(1 for _ in backsight.open(CAPTURES / "first").packets())


def test_errors_have_the_words_of_the_program():
    with pytest.raises(backsight.CaptureError, match="nowhere"):
        backsight.open("nowhere")
    with pytest.raises(OSError):
        backsight.open("nowhere")
    with pytest.raises(backsight.UsageError, match="protocol morse: expected one of"):
        backsight.open(CAPTURES / "first" / "trace.bin", protocol="morse")
    for path in [CAPTURES / "first", CAPTURES / "first" / "trace.bin"]:
        with pytest.raises(backsight.UsageError, match="^what: expected `KEY=VALUE`, or the name of a file"):
            backsight.open(path, protocol="etm4" if path.is_file() else None, config=["what"])
    capture = backsight.open(CAPTURES / "first")
    with pytest.raises(ValueError, match="ID 0x11: the sources have 0x10"):
        list(capture.packets(source=0x11))
    with pytest.raises(backsight.BacksightError, match="buffer none: the capture has"):
        list(capture.execution(buffer="none"))
    for image in ["missing.elf", "missing.elf@0x1000"]:
        with pytest.raises(backsight.ImageError, match="^images missing.elf: there is no such file$"):
            backsight.open(CAPTURES / "first", images=[image])
