"""A link goes down and comes back: the log says both, forwarding goes on, and all mbufs are returned at the end."""

import pytest

from weir_smoke import BUILD, Memory, Session, needs_programs, needs_root
from wires import Wire, exchange, ip, make_frames, udp_frame, wait_until_joined, write_policy

pytestmark = [pytest.mark.timeout(180), pytest.mark.usefixtures("quiet_network"), needs_root("interfaces need it"),
              needs_programs("ip")]

PAIR = "forward: pair\nports: [{port: 0}, {port: 1}]"
TO_PEER = "forward: pair\nno_snapshot: pass\nports: [{port: 0}, {port: 2}, {port: 1}, {port: 3}]"
TAPS = ["net_tap0,iface=out0", "net_tap1,iface=out1"]
MEMIF = "net_memif{i},role={role},id={i},socket={folder}/memif,socket-abstract=no"
FRAMES = make_frames(100)
SENT_FIRST = [udp_frame(number, False, 0) for number in range(200)]  # some of them come late, some not at all


def test_forwarding_goes_on_after_an_interface_was_down(session):
    start(session, TAPS)
    forwards_both_ways("tap")
    for times in (1, 2):
        ip("link", "set", "out1", "down")
        wait_logged(session, "link down port=1 name=net_tap1", times)
        send_frames(50)  # there is no link for them
        ip("link", "set", "out1", "up")
        wait_logged(session, "link up port=1 name=net_tap1", times)
        forwards_both_ways("tap, up again")
    assert session.log("dataplane").count("name=net_tap0") == 0, "lines about the other port"
    stop(session)


def test_forwarding_goes_on_after_a_memif_peer_ended(session):
    start(session, [MEMIF.format(i=i, role="server", folder=session.folder) for i in (0, 1)])
    for times in (1, 2, 3):
        with Session(BUILD) as peer:
            clients = [MEMIF.format(i=i, role="client", folder=session.folder) for i in (0, 1)]
            peer.start_dataplane(TO_PEER, TAPS + clients, 1, Memory(8192, 1518), extra=())
            for i in (0, 1):
                wait_logged(session, f"link up port={i} name=net_memif{i}", times)
            forwards_both_ways("memif")
            send_frames(200)  # some are under way when the peer ends
            if times == 2:
                peer.kill("dataplane")
            else:
                stop(peer)
        for i in (0, 1):
            wait_logged(session, f"link down port={i} name=net_memif{i}", times)
    stop(session)


def start(session, vdevs):
    session.start_dataplane(PAIR, vdevs)
    session.start_controld(write_policy(session))
    session.wait_enforced()


def stop(session):
    assert session.stop("dataplane") == 0, f"the data plane's exit code\n{session.log('dataplane')}"
    assert "mbufs, all returned" in session.log("dataplane"), "mbufs are not all returned"


def wait_logged(session, text, times):
    session.wait(f"the line `{text}`", lambda: session.log("dataplane").count(text) >= times)


def forwards_both_ways(what):
    with Wire("out0") as one, Wire("out1") as other:
        for near, far in ((one, other), (other, one)):
            wait_until_joined(near, far, SENT_FIRST)
            exchange(near, far, FRAMES, what)


def send_frames(n):
    with Wire("out0") as wire:
        for frame in SENT_FIRST[:n]:
            wire.send(frame)
