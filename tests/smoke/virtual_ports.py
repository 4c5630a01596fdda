"""Every kind of virtual port forwards, in both directions, with every verdict right, each frame unchanged and in order,
exact counts, and a clean stop with all mbufs returned. So do jumbo frames, in several mbufs and in one.

    WEIR_BUILD=build python3 tests/smoke/virtual_ports.py [KIND...]
"""

import contextlib
import os
import re
import sys
from dataclasses import dataclass

from weir_smoke import (BUILD, Capture, Memory, Session, SessionError, by_flow, check, equal, events, read_capture, write,
                        write_capture)
from wires import Wire, exchange, make_frames, make_veth, own_network, wait_until_joined, write_policy

FRAMES = 300
JUMBO = 9014
PAIR = "forward: pair\nports: [{port: 0%s}, {port: 1%s}]"
TO_PEER = "forward: pair\nno_snapshot: pass\nports: [{port: 0%s}, {port: 2}, {port: 1%s}, {port: 3}]"
ONE_MEMORY = ["--single-file-segments"]  # what a virtio front end shares with its back end


@dataclass
class Kind:
    """ports: the two --vdev of the data plane under test; peer: those of a second one, that joins them to two taps."""

    name: str
    ports: tuple
    peer: tuple = ()
    peer_first: bool = False
    veth: bool = False
    longest: int = 1514
    mtu: str = ""
    data_room: int = 2048  # of a frame
    mbufs: int = 8192
    eal: tuple = ()


AF_PACKET_JUMBO = ",blocksz=65536,framesz=16384,framecnt=256"
VHOST = tuple(f"net_vhost{i},iface={{folder}}/vhost{i}" for i in (0, 1))
VIRTIO_USER = tuple(f"virtio_user{i},path={{folder}}/vhost{i},queue_size=256" for i in (0, 1))
MEMIF = tuple(f"net_memif{i},role=%s,id={i},socket={{folder}}/memif,socket-abstract=no" for i in (0, 1))
SERVER, CLIENT = (tuple(row % role for row in MEMIF) for role in ("server", "client"))
KINDS = (
    Kind("af_packet", ("net_af_packet0,iface=in0", "net_af_packet1,iface=in1"), veth=True),
    Kind("af_packet, jumbo frames in one mbuf", tuple(f"net_af_packet{i},iface=in{i}" + AF_PACKET_JUMBO for i in (0, 1)),
         veth=True, longest=JUMBO, mtu=", mtu: 9000", data_room=16384, mbufs=4096),
    Kind("af_xdp", ("net_af_xdp0,iface=in0", "net_af_xdp1,iface=in1"), veth=True),
    Kind("tap", ("net_tap0,iface=out0", "net_tap1,iface=out1")),
    Kind("memif", SERVER, CLIENT),
    Kind("memif client", CLIENT, SERVER, peer_first=True),
    Kind("vhost", VHOST, VIRTIO_USER, eal=ONE_MEMORY),
    Kind("virtio-user", VIRTIO_USER, VHOST, peer_first=True, eal=ONE_MEMORY),
)


def in_folder(vdevs, folder):
    return [vdev.format(folder=folder) for vdev in vdevs]


def start_peer(peer, kind, folder):
    taps = ["net_tap0,iface=out0", "net_tap1,iface=out1"]
    peer.start_dataplane(TO_PEER % (kind.mtu, kind.mtu), taps + in_folder(kind.peer, folder), 1,
                         Memory(kind.mbufs, kind.data_room), extra=(), eal=kind.eal)
    peer.wait("its ports", lambda: " info running " in peer.log("dataplane"))  # their sockets are there


def stop(session, what):
    equal(session.stop("dataplane"), 0, f"{what}: the data plane's exit code\n{session.log('dataplane')}")
    end = r"\d+ kept by net_af_xdp, .*" if what == "af_xdp" else "all returned"
    check(re.search(rf"^[1-9]\d* mbufs, {end}$", session.log("dataplane"), re.M),
          f"{what}: mbufs are not all returned:\n{session.log('dataplane')}")


def wait_counted(session, before, frames, blocked):
    """Until so many frames more are counted, wherever they are: a frame arrives before it is counted as sent."""
    def grown(name):
        return session.stats()[name] - before[name]

    session.wait("the counters", lambda: grown("packets") >= frames and grown("dropped") >= blocked
                 and grown("tx_packets") + grown("tx_lost") >= frames - blocked)


def forward(kind):
    frames = make_frames(FRAMES, kind.longest)
    with Session(BUILD) as session, contextlib.ExitStack() as stack:
        peer = stack.enter_context(Session(BUILD)) if kind.peer else None
        if kind.veth:
            for i in (0, 1):
                make_veth(f"out{i}", f"in{i}", 9000 if kind.longest > 1514 else 1500)
        if kind.peer_first:
            start_peer(peer, kind, session.folder)
        session.start_dataplane(PAIR % (kind.mtu, kind.mtu), in_folder(kind.ports, session.folder), 1,
                                Memory(kind.mbufs, kind.data_room), eal=kind.eal)
        session.wait("its ports", lambda: " info running " in session.log("dataplane"))
        if peer and not kind.peer_first:
            start_peer(peer, kind, session.folder)
        session.start_controld(write_policy(session))
        session.wait_enforced()
        wires = [Wire("out0"), Wire("out1")]
        for near, far in (wires, wires[::-1]):
            wait_until_joined(near, far)
        before = session.stats()
        for near, far in (wires, wires[::-1]):
            exchange(near, far, frames, kind.name)
        blocked = 2 * sum(blocked for _, blocked in frames)
        wait_counted(session, before, 2 * FRAMES, blocked)
        after = session.stats()
        for key, expected in (("packets", 2 * FRAMES), ("dropped", blocked), ("passed", 2 * FRAMES - blocked),
                              ("tx_packets", 2 * FRAMES - blocked), ("tx_lost", 0), ("not_ip", 0), ("malformed", 0),
                              ("rx_missed", 0)):
            equal(after[key] - before[key], expected, f"{kind.name}: {key}")
        equal(after["lists"]["blocked"]["dropped"], blocked, f"{kind.name}: dropped by the list")
        for wire in wires:
            wire.close()
        stop(session, kind.name)
        if peer:
            stop(peer, f"{kind.name}: the peer")


def forward_files():
    """net_pcap: captures in, captures out, at once in both directions."""
    frames = make_frames(FRAMES)
    with Session(BUILD) as session:
        sent = Capture(frames=[frame for frame, _ in frames], headers=[(0, 0, len(frame)) for frame, _ in frames])
        for i in (0, 1):
            write_capture(session.path(f"in{i}.pcap"), sent)
        session.start_dataplane(PAIR % ("", ""), [f"net_pcap{i},rx_pcap=in{i}.pcap,tx_pcap=out{i}.pcap" for i in (0, 1)])
        session.start_controld(write_policy(session))
        blocked = 2 * sum(blocked for _, blocked in frames)
        wait_counted(session, dict.fromkeys(session.stats(), 0), 2 * FRAMES, blocked)
        equal(session.stats()["dropped"], blocked, "pcap: dropped")
        stop(session, "pcap")
        for i in (0, 1):
            found = by_flow(read_capture(session.path(f"out{i}.pcap")).frames)
            check(found == by_flow(frame for frame, blocked in frames if not blocked), f"pcap: frames of out{i}")


def forward_jumbo():
    """net_memif, both ways: frames that take five mbufs each come in and go out; the peer has them in files."""
    frames = make_frames(FRAMES, JUMBO)
    longer_ring = ",rsize=12"  # a frame takes several slots
    with Session(BUILD) as session, Session(BUILD) as peer:
        sent = Capture(frames=[frame for frame, _ in frames], headers=[(0, 0, len(frame)) for frame, _ in frames])
        for i in (0, 1):
            write_capture(peer.path(f"in{i}.pcap"), sent)
        session.start_dataplane(PAIR % (", mtu: 9000", ", mtu: 9000"),
                                in_folder((port + longer_ring for port in SERVER), session.folder))
        session.start_controld(write_policy(session))
        session.wait_enforced()
        files = [f"net_pcap{i},rx_pcap=in{i}.pcap,tx_pcap=out{i}.pcap" for i in (0, 1)]
        peer.start_dataplane(TO_PEER % ("", ""),
                             files + in_folder((port + longer_ring for port in CLIENT), session.folder), 1,
                             Memory(8192, JUMBO))
        for i in (0, 1):
            session.wait("links", lambda i=i: len(events(session.log("dataplane"), "link up", name=f"net_memif{i}")) > 0)
        peer.start_controld(write(peer.folder, "weir.yaml", "version: 1\n"))  # it polls from now on
        session.wait("every frame", lambda: session.stats()["packets"] >= 2 * FRAMES)
        passed = [frame for frame, blocked in frames if not blocked]
        peer.wait("every frame", lambda: peer.stats()["packets"] >= 2 * FRAMES + 2 * len(passed))
        wait_counted(session, dict.fromkeys(session.stats(), 0), 2 * FRAMES, 2 * (FRAMES - len(passed)))
        stats = session.stats()
        equal((stats["packets"], stats["dropped"], stats["tx_packets"], stats["tx_lost"]),
              (2 * FRAMES, 2 * (FRAMES - len(passed)), 2 * len(passed), 0), "jumbo frames: packets, dropped, sent, lost")
        stop(session, "jumbo frames")
        stop(peer, "jumbo frames: the peer")
        for i in (0, 1):
            found = read_capture(peer.path(f"out{i}.pcap")).frames
            check(by_flow(found) == by_flow(passed), f"jumbo frames: {len(found)} of out{i} are not the {len(passed)} that pass")


def main():
    chosen = sys.argv[1:]
    own_network()
    for kind in KINDS:
        if chosen and kind.name.split(",")[0] not in chosen:
            continue
        child = os.fork()  # a namespace for each: interfaces of the last are gone with it
        if child == 0:
            try:
                own_network()
                forward(kind)
                sys.stdout.flush()
                code = 0
            except SessionError as error:
                print(f"FAILED: {kind.name}: {error}", flush=True)
                code = 1
            except SystemExit as error:
                if isinstance(error.code, str):
                    print(error.code, flush=True)
                code = error.code if isinstance(error.code, int) else 1
            os._exit(code)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        equal(code, 0, f"{kind.name}: exit code")
        print(f"{kind.name}: {FRAMES} frames each way", flush=True)
    if not chosen or "pcap" in chosen:
        forward_files()
        print(f"pcap: {FRAMES} frames each way")
    if not chosen or "jumbo" in chosen:
        forward_jumbo()
        print(f"memif, jumbo frames in several mbufs: {FRAMES} frames each way")


if __name__ == "__main__":
    main()
