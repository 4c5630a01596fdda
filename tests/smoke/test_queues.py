"""Ports with several queues: every frame is judged once and as the reference judges it, and the totals are the sums. A queue
keeps its order."""

import pytest

from weir_smoke import (Memory, by_flow, counts_as_reference, make_samples, outputs, read_capture, reference, sort_out, split,
                        write_capture)

pytestmark = pytest.mark.alone

PORTS, QUEUES = 3, 2


@pytest.fixture
def capture(session):
    make_samples(session.folder)
    return read_capture(session.path("capture.pcap"))


def test_each_queue_keeps_its_order(session, capture):
    """Two workers with a queue each, on the passed and on the dropped side."""
    vdevs = ["net_pcap0,rx_pcap=in0.pcap,rx_pcap=in1.pcap", "net_pcap1,tx_pcap=passed0.pcap,tx_pcap=passed1.pcap",
             "net_pcap2,tx_pcap=dropped0.pcap,tx_pcap=dropped1.pcap"]
    parts = write_parts(session, capture, 2)
    judge(session, capture, "forward: pair\ndrop_port: 2\nports: [{port: 0, queues: 2}, {port: 1, queues: 2}]", vdevs, 2)
    for number, part in enumerate(parts):
        out = [read_capture(session.path(f"{side}{number}.pcap")).frames for side in ("passed", "dropped")]
        _, dropped = sort_out(part.frames, *out)
        expected = judged_by_reference(session, f"in{number}.pcap")[1]
        assert [part.frames[i] for i in dropped] == expected, f"dropped frames of queue {number}"


@pytest.mark.timeout(180)
@pytest.mark.parametrize("workers", [1, 2])
def test_frames_leave_by_the_queue_that_belongs_to_theirs(session, capture, workers):
    """Three ports with two queues each. Frames of a flow stay in order."""
    ports = ", ".join(f"{{port: {port}, queues: {QUEUES}}}" for port in range(PORTS))
    numbers = range(PORTS * QUEUES)
    files = [f"rx_pcap=in{number}.pcap,tx_pcap=out{number}.pcap" for number in numbers]
    vdevs = [f"net_pcap{port}," + ",".join(files[port * QUEUES:(port + 1) * QUEUES]) for port in range(PORTS)]
    write_parts(session, capture, PORTS * QUEUES)
    judge(session, capture, f"forward: hairpin\nports: [{ports}]", vdevs, workers)
    for number in numbers:
        passed = read_capture(session.path(f"out{number}.pcap")).frames
        expected = judged_by_reference(session, f"in{number}.pcap")[0]
        assert by_flow(passed) == by_flow(expected), f"passed frames of queue {number}"


def write_parts(session, capture, number_of_parts):
    parts = split(capture, number_of_parts)
    for number, part in enumerate(parts):
        write_capture(session.path(f"in{number}.pcap"), part)
    return parts


def judge(session, capture, config, vdevs, workers):
    """All frames, once. The totals are those of the reference."""
    session.start_dataplane(config, vdevs, workers, Memory(8192, capture.longest()))
    session.start_controld(session.path("weir.yaml"))
    session.wait_enforced()
    session.wait("every frame", lambda: session.stats()["packets"] >= len(capture.frames))
    stats = session.stats()
    session.stop("controld")
    assert session.stop("dataplane") == 0, "the data plane's exit code"
    counts_as_reference(stats, reference(session.path("weir.yaml"), session.path("capture.pcap"), outputs(session.folder, "all")))


def judged_by_reference(session, name):
    """(passed, dropped) frames of a capture of the session."""
    paths = outputs(session.folder, name)
    reference(session.path("weir.yaml"), session.path(name), paths)
    return [read_capture(path).frames for path in paths[:2]]
