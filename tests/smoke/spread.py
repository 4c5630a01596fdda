"""`spread` on a port with one receive queue: both workers get frames, both directions of a flow meet the same worker and
keep their order, verdicts and sums are exact. Frames that find a queue full are counted as lost, and so are those
that the kernel drops before net_af_packet receives them."""

import re

from weir_smoke import (BUILD, Capture, Memory, Session, check, equal, make_samples, outputs, read_capture, reference,
                        sort_out, write, write_capture)
from capture import flow_hash
from wires import Wire, ip, make_frames, own_network

CONFIG = "forward: hairpin\ndrop_port: 1\nports: [{port: 0, spread: 2}]"
FEW = 900  # less than a ring holds: none can be lost, however slow the workers are


def run_once(session, frames, memory):
    """The capture once through; the totals, and what each worker passed and dropped."""
    write_capture(session.path("in.pcap"), frames)
    session.start_dataplane(CONFIG, ["net_pcap0,rx_pcap=in.pcap,tx_pcap=passed0.pcap,tx_pcap=passed1.pcap",
                                     "net_pcap1,tx_pcap=dropped0.pcap,tx_pcap=dropped1.pcap"], 2, memory)
    session.start_controld(session.path("weir.yaml"))
    session.wait_enforced()

    def all_seen():
        stats = session.stats()
        return stats["packets"] + stats["rx_missed"] >= len(frames.frames)

    session.wait("every frame", all_seen)
    stats = session.stats()
    session.stop("controld")
    equal(session.stop("dataplane"), 0, "the data plane's exit code")
    check(re.search(r"^[1-9]\d* mbufs, all returned$", session.log("dataplane"), re.M), "mbufs are not all returned")
    return stats, [[read_capture(session.path(f"{side}{worker}.pcap")).frames for side in ("passed", "dropped")]
                   for worker in (0, 1)]


with Session(BUILD) as session:
    make_samples(session.folder)
    capture = read_capture(session.path("capture.pcap"))
    few = Capture(capture.nanoseconds, capture.frames[:FEW], capture.headers[:FEW])
    stats, workers = run_once(session, few, Memory(8192, capture.longest()))
    expected = reference(session.path("weir.yaml"), session.path("in.pcap"), outputs(session.folder, "reference"))
    for key, value in expected.items():
        if key != "lists":
            equal(stats[key], value, key)
    equal(stats["rx_missed"], 0, "lost frames")
    owner = {}
    for worker, (passed, dropped) in enumerate(workers):
        check(len(passed) + len(dropped) > FEW // 10, f"worker {worker} has only {len(passed) + len(dropped)} frames")
        for frame in passed + dropped:
            if flow_hash(frame) != 0:
                equal(owner.setdefault(flow_hash(frame), worker), worker, "worker of a flow")
        mine = {hash for hash, its in owner.items() if its == worker}
        of_mine = [frame for frame in few.frames if flow_hash(frame) in mine]
        ip_only = [[frame for frame in side if flow_hash(frame) != 0] for side in (passed, dropped)]
        sort_out(of_mine, *ip_only)  # order, and each exactly once
    for side, paths in enumerate(outputs(session.folder, "reference")[:2]):
        equal(sorted(workers[0][side] + workers[1][side]), sorted(read_capture(paths).frames), "frames of both workers")

with Session(BUILD) as session:  # faster than the workers: the port gives all at once
    make_samples(session.folder)
    capture = read_capture(session.path("capture.pcap"))
    many = Capture(capture.nanoseconds, capture.frames * 4, capture.headers * 4)
    stats, workers = run_once(session, many, Memory(16384, capture.longest()))
    equal(stats["packets"] + stats["rx_missed"], len(many.frames), "judged and lost frames")
    equal(stats["passed"] + stats["dropped"], stats["packets"], "passed and dropped frames")
    equal(sum(len(frames) for sides in workers for frames in sides), stats["packets"], "frames that came out")
    print(f"spread: {FEW} frames judged by two workers; of {len(many.frames)} at full speed {stats['rx_missed']} lost")

own_network()
with Session(BUILD) as session:  # the kernel's ring is full before a worker looks
    ip("link", "add", "out0", "type", "veth", "peer", "name", "in0")
    for name in ("out0", "in0"):
        ip("link", "set", name, "up")
    write(session.folder, "weir.yaml", "version: 1\nlists:\n  - {name: nobody, action: drop, entries: [203.0.113.0/24]}\n")
    session.start_dataplane("forward: sink\nports: [{port: 0, spread: 2}]", ["net_af_packet0,iface=in0,framecnt=512"], 3,
                            Memory(8192, 2048))

    session.wait("its ports", lambda: " info running " in session.log("dataplane"))

    def arrived():
        """Frames that the kernel received from in0."""
        with open("/proc/net/dev", encoding="ascii") as file:
            return next(int(line.split()[2]) for line in file if line.split()[0] == "in0:")

    before, wire = arrived(), Wire("out0")
    for frame, _ in make_frames(4 * 512, 200):
        wire.send(frame)
    wire.close()
    session.start_controld(session.path("weir.yaml"))
    session.wait_enforced()
    session.wait("every frame", lambda: sum(session.stats()[key] for key in ("packets", "rx_missed")) >= arrived() - before)
    stats = session.stats()
    equal(stats["packets"] + stats["rx_missed"], arrived() - before, "judged and lost frames")
    check(stats["rx_missed"] > 0, "a ring of 512 frames lost some of 2048")
    ports = session.call("telemetry")["targets"][0]["ports"]
    equal(sum(port["rx_missed"] for port in ports), stats["rx_missed"], "lost frames by port")
    equal(session.stop("dataplane"), 0, "the data plane's exit code")
    print(f"net_af_packet: {stats['packets']} frames judged, {stats['rx_missed']} lost in the kernel's ring and counted")
