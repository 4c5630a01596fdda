"""Host mode: TCP crosses the data plane between a card and the kernel's own stack while the policy is reloaded. Every byte
arrives, nothing stalls; a list that names the peer shuts it out, and lets it in again when it is gone; a connection
outlives a killed data plane when the tap was made to stay."""

import socket

from weir_smoke import BUILD, check, equal, skip  # first: it knows where the others are
from host_rig import (AF_PACKET, AF_XDP, HOST4, MOST_GAP_MS, HostSession, Stream, in_namespace, missing,
                      stream_through_reloads, write_lists)

RELOADS = {AF_PACKET: 100, AF_XDP: 10}


def check_streams(streams, what):
    for name, found in streams.items():
        print(f"{what}: {name}: {found}")
        equal(found["error"], None, f"{what}: {name}: error")
        check(found["received"] > 0 and found["received"] == found["sent"], f"{what}: {name}: bytes: {found}")
        check(found["same_bytes"], f"{what}: {name}: what arrived is what was sent")
        check(found["longest_gap_ms"] < MOST_GAP_MS, f"{what}: {name}: for how long no byte came: {found}")


def shut_out_and_in(session):
    """A connection that is dropped by the list that names its client, and comes about when the list is gone."""
    session.write_policy("peer")
    session.reload()
    with session.listen(socket.AF_INET, HOST4) as listener:
        client = in_namespace(session.client, lambda: socket.socket(socket.AF_INET, socket.SOCK_STREAM))
        client.setblocking(False)
        client.connect_ex(listener.getsockname())
        session.wait("drops of the peer", lambda: session.stats()["lists"]["peer"]["dropped"] >= 2)
        listener.setblocking(False)
        try:
            listener.accept()
            check(False, "a peer that a list names must not get through")
        except BlockingIOError:
            pass
        session.write_policy("small")
        session.reload()
        listener.settimeout(60)
        listener.accept()[0].close()
        client.close()
        again, accepted = session.connect(listener)
        again.close()
        accepted.close()


if reason := missing():
    skip(reason)

for card, reloads in RELOADS.items():
    what = card.split(",")[0]
    with HostSession(BUILD, card) as session:
        write_lists(session)
        session.start_pair()
        session.enforce("small")
        check_streams(stream_through_reloads(session, reloads), what)
        shut_out_and_in(session)
        equal(session.stats()["tx_lost"], 0, f"{what}: frames that no port took")
        if card == AF_PACKET:  # net_af_xdp does not give the mbufs of its fill ring back
            equal(session.stop("dataplane"), 0, f"{what}: the data plane's exit code")

# The tap was made before and stays: so do its addresses, its routes and the connections over it.
with HostSession(BUILD, tap_made_before=True) as session:
    write_lists(session)
    session.start_pair()
    session.enforce("small")
    with session.listen(socket.AF_INET, HOST4) as listener:
        client, host = session.connect(listener)
    stream = Stream(client, host)
    session.wait("bytes", lambda: stream.received > 1 << 20)
    session.kill("dataplane")
    session.start_pair()
    session.wait_enforced()
    at_restart = stream.received
    session.wait("bytes over the same connection", lambda: stream.received > at_restart + (1 << 20))
    found = stream.finish()
    print(f"killed and started again: {found}")
    check(found["error"] is None and found["same_bytes"], f"the connection outlives the data plane: {found}")
    equal(session.stop("dataplane"), 0, "the data plane's exit code")
