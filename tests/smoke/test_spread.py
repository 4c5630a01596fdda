"""`spread` on a port with one receive queue. Both workers get frames, both directions of a flow get the same worker and keep
their order, verdicts and sums are exact. Frames that find a queue full are counted as lost, and frames that the kernel drops
before net_af_packet receives them."""

import re

import pytest

from capture import flow_hash
from weir_smoke import (Capture, Memory, counts_as_reference, make_samples, needs_programs, needs_root, outputs, read_capture, reference,
                        sort_out, write, write_capture)
from wires import Wire, ip, make_frames

pytestmark = [pytest.mark.alone, pytest.mark.timeout(180)]

CONFIG = "forward: hairpin\ndrop_port: 1\nports: [{port: 0, spread: 2}]"
FEW = 900  # less than a ring holds: none can be lost, however slow the workers are
RING = 512  # frames


@pytest.fixture
def capture(session):
    make_samples(session.folder)
    return read_capture(session.path("capture.pcap"))


def test_a_flow_has_one_worker(session, capture):
    few = Capture(capture.nanoseconds, capture.frames[:FEW], capture.headers[:FEW])
    stats, workers = judge(session, few, Memory(8192, capture.longest()))
    paths = outputs(session.folder, "reference")
    counts_as_reference(stats, reference(session.path("weir.yaml"), session.path("in.pcap"), paths))
    assert stats["rx_missed"] == 0, "lost frames"
    owner = {}
    for worker, (passed, dropped) in enumerate(workers):
        assert len(passed) + len(dropped) > FEW // 10, f"frames of worker {worker}"
        for frame in passed + dropped:
            if flow_hash(frame) != 0:
                assert owner.setdefault(flow_hash(frame), worker) == worker, "worker of a flow"
        mine = {flow for flow, its in owner.items() if its == worker}
        of_mine = [frame for frame in few.frames if flow_hash(frame) in mine]
        ip_only = [[frame for frame in side if flow_hash(frame) != 0] for side in (passed, dropped)]
        sort_out(of_mine, *ip_only)  # order, and each exactly once
    for side, path in enumerate(paths[:2]):
        assert sorted(workers[0][side] + workers[1][side]) == sorted(read_capture(path).frames), "frames of both workers"


def test_frames_that_find_a_queue_full_are_counted_as_lost(session, capture):
    """The port gives all frames at once, faster than the workers."""
    many = Capture(capture.nanoseconds, capture.frames * 4, capture.headers * 4)
    stats, workers = judge(session, many, Memory(16384, capture.longest()))
    assert stats["packets"] + stats["rx_missed"] == len(many.frames), "judged and lost frames"
    assert stats["passed"] + stats["dropped"] == stats["packets"], "passed and dropped frames"
    assert sum(len(frames) for sides in workers for frames in sides) == stats["packets"], "frames that came out"


@needs_root("interfaces need it")
@needs_programs("ip")
@pytest.mark.usefixtures("quiet_network")
def test_frames_that_the_kernel_drops_are_counted_as_lost(session):
    """The kernel's ring is full before a worker looks."""
    ip("link", "add", "out0", "type", "veth", "peer", "name", "in0")
    for name in ("out0", "in0"):
        ip("link", "set", name, "up")
    write(session.folder, "weir.yaml", "version: 1\nlists:\n  - {name: nobody, action: drop, entries: [203.0.113.0/24]}\n")
    session.start_dataplane("forward: sink\nports: [{port: 0, spread: 2}]", [f"net_af_packet0,iface=in0,framecnt={RING}"], 3,
                            Memory(8192, 2048))
    session.wait("its ports", lambda: " info running " in session.log("dataplane"))

    def arrived():
        """Frames that the kernel received from in0."""
        with open("/proc/net/dev", encoding="ascii") as file:
            return next(int(line.split()[2]) for line in file if line.split()[0] == "in0:")

    before = arrived()
    with Wire("out0") as wire:
        for frame, _ in make_frames(4 * RING, 200):
            wire.send(frame)
    session.start_controld(session.path("weir.yaml"))
    session.wait_enforced()
    session.wait("every frame", lambda: sum(session.stats()[key] for key in ("packets", "rx_missed")) >= arrived() - before)
    stats = session.stats()
    assert stats["packets"] + stats["rx_missed"] == arrived() - before, "judged and lost frames"
    assert stats["rx_missed"] > 0, f"lost frames of {4 * RING} in a ring of {RING}"
    ports = session.call("telemetry")["targets"][0]["ports"]
    assert sum(port["rx_missed"] for port in ports) == stats["rx_missed"], "lost frames by port"
    assert session.stop("dataplane") == 0, "the data plane's exit code"


def judge(session, capture, memory):
    """The capture once through: the totals, and of each worker (passed, dropped) frames."""
    write_capture(session.path("in.pcap"), capture)
    session.start_dataplane(CONFIG, ["net_pcap0,rx_pcap=in.pcap,tx_pcap=passed0.pcap,tx_pcap=passed1.pcap",
                                     "net_pcap1,tx_pcap=dropped0.pcap,tx_pcap=dropped1.pcap"], 2, memory)
    session.start_controld(session.path("weir.yaml"))
    session.wait_enforced()
    session.wait("every frame", lambda: sum(session.stats()[key] for key in ("packets", "rx_missed")) >= len(capture.frames))
    stats = session.stats()
    session.stop("controld")
    assert session.stop("dataplane") == 0, "the data plane's exit code"
    assert re.search(r"^[1-9]\d* mbufs, all returned$", session.log("dataplane"), re.M), "mbufs are not all returned"
    return stats, [[read_capture(session.path(f"{side}{worker}.pcap")).frames for side in ("passed", "dropped")]
                   for worker in (0, 1)]
