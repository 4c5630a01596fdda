"""A link that goes down and comes back: said both times, forwarding goes on, and at the end all mbufs are returned.

net_tap, whose interface is set down, and net_memif, whose peer stops and comes back, in mid-traffic.
"""

import re

from weir_smoke import BUILD, Memory, Session, check, equal
from wires import Wire, exchange, ip, make_frames, own_network, udp_frame, wait_until_joined, write_policy

PAIR = "forward: pair\nports: [{port: 0}, {port: 1}]"
TO_PEER = "forward: pair\nno_snapshot: pass\nports: [{port: 0}, {port: 2}, {port: 1}, {port: 3}]"
TAPS = ["net_tap0,iface=out0", "net_tap1,iface=out1"]
FRAMES = make_frames(100)


def said(session, text):
    return len(re.findall(re.escape(text), session.log("dataplane")))


def wait_said(session, text, times=1):
    session.wait(f"the line `{text}`", lambda: said(session, text) >= times)


def clean_stop(session, what):
    equal(session.stop("dataplane"), 0, f"{what}: exit code\n{session.log('dataplane')}")
    check("mbufs, all returned" in session.log("dataplane"), f"{what}: mbufs are not all returned")


def both_ways(what):
    wires = [Wire("out0"), Wire("out1")]
    for near, far in (wires, wires[::-1]):
        wait_until_joined(near, far)
        exchange(near, far, FRAMES, what)
    for wire in wires:
        wire.close()


def interface_down():
    with Session(BUILD) as session:
        session.start_dataplane(PAIR, TAPS)
        session.start_controld(write_policy(session))
        session.wait_enforced()
        both_ways("tap")
        for times in (1, 2):
            ip("link", "set", "out1", "down")
            wait_said(session, "link down port=1 name=net_tap1", times)
            wire = Wire("out0")
            for number in range(50):  # has nowhere to go
                wire.send(udp_frame(number, False, 0))
            wire.close()
            ip("link", "set", "out1", "up")
            wait_said(session, "link up port=1 name=net_tap1", times)
            both_ways("tap, up again")
        equal(said(session, "name=net_tap0"), 0, "lines about the other port")
        clean_stop(session, "tap")


def peer_goes():
    memif = "net_memif{i},role={role},id={i},socket={folder}/memif,socket-abstract=no"
    with Session(BUILD) as session:
        session.start_dataplane(PAIR, [memif.format(i=i, role="server", folder=session.folder) for i in (0, 1)])
        session.start_controld(write_policy(session))
        session.wait_enforced()
        for times in (1, 2, 3):
            with Session(BUILD) as peer:
                clients = [memif.format(i=i, role="client", folder=session.folder) for i in (0, 1)]
                peer.start_dataplane(TO_PEER, TAPS + clients, 1, Memory(8192, 1518), extra=())
                for i in (0, 1):
                    wait_said(session, f"link up port={i} name=net_memif{i}", times)
                both_ways("memif")
                wire = Wire("out0")
                for number in range(200):  # some are on their way when the peer goes
                    wire.send(udp_frame(number, False, 0))
                peer.kill("dataplane") if times == 2 else clean_stop(peer, "memif: the peer")
                wire.close()
            for i in (0, 1):
                wait_said(session, f"link down port={i} name=net_memif{i}", times)
        clean_stop(session, "memif")


if __name__ == "__main__":
    own_network()
    interface_down()
    print("net_tap: down and up, twice")
    peer_goes()
    print("net_memif: the peer went three times, once without a word")
