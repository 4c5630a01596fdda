"""Host mode: TCP crosses the data plane between a card and the kernel's own stack while the policy is reloaded. Every byte
arrives. A list that names the peer shuts it out. A connection outlives a killed data plane when the tap was made before."""

import os
import socket

import pytest

from host_rig import AF_PACKET, AF_XDP, HOST4, VIRTIO_USER, HostSession, Stream, in_namespace, missing, stream_through_reloads, write_lists
from weir_smoke import BUILD

pytestmark = [pytest.mark.alone, pytest.mark.slow, pytest.mark.timeout(300), pytest.mark.skipif(bool(missing()), reason=missing() or "")]


@pytest.mark.parametrize("card, reloads", [(AF_PACKET, 100), (AF_XDP, 10)], ids=["af_packet", "af_xdp"])
def test_every_byte_arrives_through_reloads(card, reloads):
    with HostSession(BUILD, card) as session:
        enforce_small(session)
        streams_are_whole(session, reloads)
        a_list_shuts_the_peer_out_and_lets_it_in_again(session)
        assert session.stats()["tx_lost"] == 0, "frames that no port took"
        if card == AF_PACKET:  # net_af_xdp does not give the mbufs of its fill ring back
            assert session.stop("dataplane") == 0, "the data plane's exit code"


@pytest.mark.skipif(not os.path.exists("/dev/vhost-net"), reason="kernel: no /dev/vhost-net (modprobe vhost_net)")
def test_every_byte_arrives_through_vhost_net():
    """virtio-user and vhost-net instead of net_tap: the faster way."""
    with HostSession(BUILD, kernel_side=VIRTIO_USER) as session:
        enforce_small(session)
        streams_are_whole(session, 20)


def test_a_connection_outlives_the_data_plane_when_the_tap_was_made_before():
    """The tap stays, and its addresses, its routes and the connections over it."""
    with HostSession(BUILD, tap_made_before=True) as session:
        enforce_small(session)
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
        assert found["error"] is None and found["same_bytes"], f"a connection over a restart of the data plane: {found}"
        assert session.stop("dataplane") == 0, "the data plane's exit code"


def enforce_small(session):
    write_lists(session)
    session.start_pair()
    session.enforce("small")


def streams_are_whole(session, reloads):
    for name, found in stream_through_reloads(session, reloads).items():
        print(f"{name}: {found}")
        assert found["error"] is None, f"{name}: error"
        assert found["received"] > 0 and found["received"] == found["sent"], f"{name}: bytes: {found}"
        assert found["same_bytes"], f"{name}: other bytes arrived than were sent"


def a_list_shuts_the_peer_out_and_lets_it_in_again(session):
    """A dropped connection is established when the list is gone."""
    session.write_policy("peer")
    session.reload()
    with session.listen(socket.AF_INET, HOST4) as listener:
        client = in_namespace(session.client, lambda: socket.socket(socket.AF_INET, socket.SOCK_STREAM))
        client.setblocking(False)
        client.connect_ex(listener.getsockname())
        session.wait("drops of the peer", lambda: session.stats()["lists"]["peer"]["dropped"] >= 2)
        listener.setblocking(False)
        with pytest.raises(BlockingIOError):
            listener.accept()
        session.write_policy("small")
        session.reload()
        listener.settimeout(60)
        listener.accept()[0].close()
        client.close()
        again, accepted = session.connect(listener)
        again.close()
        accepted.close()
