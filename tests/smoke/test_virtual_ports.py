"""Every kind of virtual port forwards in both directions: verdicts are right, frames are unchanged and in order, counts are
exact. All mbufs are returned at the end. Jumbo frames come in several mbufs and in one."""

import re
from dataclasses import dataclass

import pytest

from weir_smoke import BUILD, Capture, Memory, Session, by_flow, events, needs_programs, needs_root, read_capture, write, write_capture
from wires import Wire, exchange, make_frames, make_veth, wait_until_joined, write_policy

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

FRAMES = 300
JUMBO = 9014
PAIR = "forward: pair\nports: [{port: 0%s}, {port: 1%s}]"
TO_PEER = "forward: pair\nno_snapshot: pass\nports: [{port: 0%s}, {port: 2}, {port: 1%s}, {port: 3}]"
TAPS = ("net_tap0,iface=out0", "net_tap1,iface=out1")
ONE_MEMORY = ("--single-file-segments",)  # a virtio front end shares it with its back end


@dataclass
class Kind:
    """ports: the two --vdev of the data plane under test. peer: those of a second one, which joins them to two taps."""

    name: str
    ports: tuple
    peer: tuple = ()
    peer_first: bool = False
    veth: bool = False
    longest: int = 1514  # frame
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
    Kind("af_packet-jumbo", tuple(f"net_af_packet{i},iface=in{i}" + AF_PACKET_JUMBO for i in (0, 1)),
         veth=True, longest=JUMBO, mtu=", mtu: 9000", data_room=16384, mbufs=4096),
    Kind("af_xdp", ("net_af_xdp0,iface=in0", "net_af_xdp1,iface=in1"), veth=True),
    Kind("tap", TAPS),
    Kind("memif", SERVER, CLIENT),
    Kind("memif-client", CLIENT, SERVER, peer_first=True),
    Kind("vhost", VHOST, VIRTIO_USER, eal=ONE_MEMORY),
    Kind("virtio-user", VIRTIO_USER, VHOST, peer_first=True, eal=ONE_MEMORY),
)


@needs_root("interfaces need it")
@needs_programs("ip", "ethtool")
@pytest.mark.usefixtures("quiet_network")
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_a_port_forwards_both_ways(session, kind):
    if kind.veth:
        for i in (0, 1):
            make_veth(f"out{i}", f"in{i}", 9000 if kind.longest > 1514 else 1500)
    if not kind.peer:
        start_under_test(session, kind)
        forward(session, kind)
        return
    with Session(BUILD) as peer:
        if kind.peer_first:
            start_peer(peer, kind, session.folder)
        start_under_test(session, kind)
        if not kind.peer_first:
            start_peer(peer, kind, session.folder)
        forward(session, kind)
        stop(peer)


def start_under_test(session, kind):
    session.start_dataplane(PAIR % (kind.mtu, kind.mtu), in_folder(kind.ports, session.folder), 1,
                            Memory(kind.mbufs, kind.data_room), eal=kind.eal)
    wait_running(session)


def start_peer(peer, kind, folder):
    peer.start_dataplane(TO_PEER % (kind.mtu, kind.mtu), [*TAPS, *in_folder(kind.peer, folder)], 1,
                         Memory(kind.mbufs, kind.data_room), extra=(), eal=kind.eal)
    wait_running(peer)  # its sockets are there


def forward(session, kind):
    frames = make_frames(FRAMES, kind.longest)
    blocked = 2 * sum(blocked for _, blocked in frames)
    session.start_controld(write_policy(session))
    session.wait_enforced()
    with Wire("out0") as one, Wire("out1") as other:
        for near, far in ((one, other), (other, one)):
            wait_until_joined(near, far)
        session.wait("counters of these frames", lambda: has_counted_all(session.stats()))
        before = session.stats()
        sent = exchange(one, other, frames, kind.name) + exchange(other, one, frames, kind.name)
        wait_counted(session, before, sent, blocked)
        after = session.stats()
    expected = {"packets": sent, "dropped": blocked, "passed": sent - blocked, "tx_packets": sent - blocked,
                "tx_lost": 0, "not_ip": 0, "malformed": 0, "rx_missed": 0}
    assert {key: after[key] - before[key] for key in expected} == expected, "counters"
    assert after["lists"]["blocked"]["dropped"] == blocked, "frames that the list drops"
    stop(session, r"\d+ kept by net_af_xdp, .*" if kind.name == "af_xdp" else "all returned")


def test_captures_are_forwarded_both_ways(session):
    frames = make_frames(FRAMES)
    for i in (0, 1):
        write_capture(session.path(f"in{i}.pcap"), capture_of(frames))
    session.start_dataplane(PAIR % ("", ""), [f"net_pcap{i},rx_pcap=in{i}.pcap,tx_pcap=out{i}.pcap" for i in (0, 1)])
    session.start_controld(write_policy(session))
    blocked = 2 * sum(blocked for _, blocked in frames)
    wait_counted(session, dict.fromkeys(session.stats(), 0), 2 * FRAMES, blocked)
    assert session.stats()["dropped"] == blocked, "frames that are dropped"
    stop(session)
    for i in (0, 1):
        found = by_flow(read_capture(session.path(f"out{i}.pcap")).frames)
        assert found == by_flow(frame for frame, blocked in frames if not blocked), f"frames of out{i}"


def test_frames_in_five_mbufs_are_forwarded_both_ways(session):
    """By net_memif. The peer has them in files."""
    frames = make_frames(FRAMES, JUMBO)
    passed = [frame for frame, blocked in frames if not blocked]
    longer_ring = ",rsize=12"  # a frame takes several slots
    with Session(BUILD) as peer:
        for i in (0, 1):
            write_capture(peer.path(f"in{i}.pcap"), capture_of(frames))
        session.start_dataplane(PAIR % (", mtu: 9000", ", mtu: 9000"),
                                in_folder((port + longer_ring for port in SERVER), session.folder))
        session.start_controld(write_policy(session))
        session.wait_enforced()
        files = [f"net_pcap{i},rx_pcap=in{i}.pcap,tx_pcap=out{i}.pcap" for i in (0, 1)]
        peer.start_dataplane(TO_PEER % ("", ""), files + in_folder((port + longer_ring for port in CLIENT), session.folder), 1,
                             Memory(8192, JUMBO))
        for i in (0, 1):
            session.wait("links", lambda i=i: events(session.log("dataplane"), "link up", name=f"net_memif{i}"))
        peer.start_controld(write(peer.folder, "weir.yaml", "version: 1\n"))  # it polls from now on
        session.wait("every frame", lambda: session.stats()["packets"] >= 2 * FRAMES)
        peer.wait("every frame", lambda: peer.stats()["packets"] >= 2 * FRAMES + 2 * len(passed))
        wait_counted(session, dict.fromkeys(session.stats(), 0), 2 * FRAMES, 2 * (FRAMES - len(passed)))
        stats = session.stats()
        expected = {"packets": 2 * FRAMES, "dropped": 2 * (FRAMES - len(passed)), "tx_packets": 2 * len(passed), "tx_lost": 0}
        assert {key: stats[key] for key in expected} == expected, "counters"
        stop(session)
        stop(peer)
        for i in (0, 1):
            found = read_capture(peer.path(f"out{i}.pcap")).frames
            assert by_flow(found) == by_flow(passed), f"{len(found)} frames of out{i} are not the {len(passed)} that pass"


def in_folder(vdevs, folder):
    return [vdev.format(folder=folder) for vdev in vdevs]


def capture_of(frames):
    return Capture(frames=[frame for frame, _ in frames], headers=[(0, 0, len(frame)) for frame, _ in frames])


def wait_running(session):
    session.wait("its ports", lambda: " info running " in session.log("dataplane"))


def stop(session, end="all returned"):
    assert session.stop("dataplane") == 0, f"the data plane's exit code\n{session.log('dataplane')}"
    assert re.search(rf"^[1-9]\d* mbufs, {end}$", session.log("dataplane"), re.M), f"mbufs: not {end}:\n{session.log('dataplane')}"


def has_counted_all(stats):
    """A frame arrives before it is counted as sent."""
    return stats["tx_packets"] + stats["tx_lost"] == stats["passed"]


def wait_counted(session, before, frames, blocked):
    """Until so many more frames are counted, at each place."""
    def is_counted():
        stats = session.stats()
        return (stats["packets"] - before["packets"] >= frames and stats["dropped"] - before["dropped"] >= blocked
                and has_counted_all(stats))

    session.wait("the counters", is_counted)
