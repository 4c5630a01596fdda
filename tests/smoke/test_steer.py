"""The kernel and the data plane share a card. The worker receives what the steering rules choose; the kernel's services
receive the rest, ARP and neighbour discovery among it. While rules change, no frame is lost or seen twice."""

import concurrent.futures
import socket
import subprocess
import threading

import pytest

from steer_rig import (CARD, ECHO4, ECHO6, HOST4, HOST6, NEEDED, PEER, Echo, Ping, SharedCard, answers, attached, make_host, send_udp,
                       shown, wait_answer)
from until import until
from weir_smoke import SessionError, needs_programs, needs_root, write
from wires import ip

pytestmark = [pytest.mark.timeout(180), needs_root("interfaces and XDP need it"), needs_programs(*NEEDED)]

POLICY = """\
version: 1
lists:
  - {name: bad, action: drop, match: dst, entries: [203.0.113.66, "2001:db8:113::66"]}
"""
CHOSEN = ["to: kernel, proto: tcp, dport: 22", "to: worker, dst: 203.0.113.0/24", 'to: worker, dst: "2001:db8:113::/48"']
ROUNDS = range(16)


def test_the_rules_share_the_card():
    client = make_host()
    with SharedCard("weir-steer.bpf.o") as session, Echo("") as echo, Echo(HOST6, family=socket.AF_INET6):
        session.start_plane()
        session.start_controld(write(session.folder, "weir.yaml", POLICY))
        session.wait_enforced()
        assert attached() == ["weir_steering"], "XDP programs on the card"
        without_rules_all_is_the_kernels(session, client)
        session.steer(CHOSEN)
        the_kernel_answers(client, "chosen prefixes")
        the_worker_receives_what_is_chosen(session, client)
        changes_of_rules_lose_nothing(session, client, echo)
        worker_by_default(session, client)
        fragments_stay_together(session, client)
        frames_longer_than_a_buffer_stay_in_the_kernel(session, client)
        session.controlctl_steer("--clear")
        the_kernel_answers(client, "rules cleared")
        without_a_data_plane_all_is_the_kernels(session, client)


def the_kernel_answers(client, when):
    client.forget_neighbours()  # ARP and neighbour discovery come first
    with client.udp() as v4, client.udp(socket.AF_INET6) as v6:
        wait_answer(v4, ECHO4)
        wait_answer(v6, ECHO6)
    for family, address in ((socket.AF_INET, HOST4), (socket.AF_INET6, HOST6)):
        until(f"the answer to a ping: {when}", Ping(client, family, address).is_answered)
    with socket.create_server((HOST4, 0)) as listener:
        dialled, accepted = client.dial(listener)
        with dialled, accepted:
            dialled.sendall(b"hello")
            assert accepted.recv(16) == b"hello", f"{when}: bytes over TCP to the kernel"


def without_rules_all_is_the_kernels(session, client):
    the_kernel_answers(client, "no rules")
    with client.udp() as wire:
        for _ in range(10):
            wire.sendto(b"x", ("203.0.113.5", 53))
        wait_answer(wire, ECHO4)
    assert session.stats()["packets"] == 0, "packets of the data plane without rules"
    steered = session.steered()
    assert (steered["to_worker"], steered["to_kernel"]) == (0, 0), f"steered without rules: {steered}"


def the_worker_receives_what_is_chosen(session, client):
    """The data plane counts exactly the chosen packets, with its own verdicts. Packets that it drops are sent last: a marker for the rest."""
    def bad():
        return session.stats()["lists"].get("bad", {}).get("dropped", 0)

    before = session.stats()
    clean = sum(send_udp(client, [address], lambda: session.stats()["packets"], ROUNDS) for address in ("203.0.113.5", "2001:db8:113::5"))
    dropped = sum(send_udp(client, [address], bad, ROUNDS) for address in ("203.0.113.66", "2001:db8:113::66"))
    after = session.stats()
    assert after["packets"] - before["packets"] == clean + dropped, "packets of the data plane"
    assert after["dropped"] - before["dropped"] == dropped, "packets that its policy drops"
    steered = session.controlctl_steer("--show")
    each = (clean + dropped) // 2
    assert [rule["taken"]["packets"] for rule in steered["rules"]] == [0, each, each], "packets of each rule"
    assert steered["default_taken"]["packets"] > 0 and steered["link_taken"]["packets"] > 0, f"packets of the kernel: {steered}"


def changes_of_rules_lose_nothing(session, client, echo):
    """Each datagram arrives once: at the worker or at the kernel's service."""
    before, received = session.stats()["packets"], echo.received
    is_over = threading.Event()

    def arrived():
        return session.stats()["packets"] - before + echo.received - received

    with concurrent.futures.ThreadPoolExecutor() as pool:
        sender = pool.submit(send_udp, client, [HOST4], arrived, iter(is_over.is_set, True), port=7000)
        try:
            for number in range(40):
                session.steer(CHOSEN + (["to: worker, proto: udp, dport: 7000"] if number % 2 == 0 else []))
        finally:
            is_over.set()
    until("the answer to a ping behind them", Ping(client, socket.AF_INET, HOST4).is_answered)
    to_worker, to_kernel = session.stats()["packets"] - before, echo.received - received
    assert to_worker + to_kernel == sender.result(), "datagrams that arrived while the rules changed"
    assert to_worker > 0 and to_kernel > 0, "datagrams at the worker, at the kernel"


def worker_by_default(session, client):
    """The worker receives everything but one service. Frames of the link stay with the kernel, so that there is a link."""
    session.steer(["to: kernel, proto: udp, dport: 7000", "to: kernel, proto: udp, sport: 7000"], default="worker")
    client.forget_neighbours()
    with client.udp() as v4, client.udp(socket.AF_INET6) as v6:
        wait_answer(v4, ECHO4)
        wait_answer(v6, ECHO6)
        before = session.stats()["packets"]
        ping = Ping(client, socket.AF_INET, HOST4)
        session.wait("the ping at the data plane", lambda: session.stats()["packets"] > before)
        wait_answer(v4, ECHO4)
        assert not ping.is_answered(), "the kernel answered a ping that the worker received"
        assert session.stats()["packets"] == before + 1, "packets of the data plane: one ping"

        before = session.stats()["not_ip"]
        session.steer(["to: kernel, proto: udp, dport: 7000"], link="worker")
        client.forget_neighbours()
        v4.sendto(b"x", ECHO4)  # the client repeats an ARP request only while nobody answers
        session.wait("an ARP request and its repetition at the data plane", lambda: session.stats()["not_ip"] >= before + 2)


def fragments_stay_together(session, client):
    """A rule with a port takes no fragment: neither the first one nor the others."""
    session.steer(["to: worker, proto: udp, dport: 7001"])
    with Echo(HOST4, 7001) as echo, client.udp() as wire:
        before = session.stats()["packets"]
        wire.sendto(b"z" * 100, (HOST4, 7001))
        session.wait("the small datagram at the data plane", lambda: session.stats()["packets"] == before + 1)
        wire.sendto(b"z" * 4000, (HOST4, 7001))
        session.wait("the large datagram at the kernel, whole", lambda: echo.received == 1)
        assert session.stats()["packets"] == before + 1, "packets of the data plane: no fragment"


def frames_longer_than_a_buffer_stay_in_the_kernel(session, client):
    """AF_XDP takes one buffer. Longer frames are counted."""
    ip("link", "set", CARD, "mtu", "9000")
    client.run("ip", "link", "set", PEER, "mtu", "9000")
    session.steer(["to: worker, proto: udp, dport: 7001"])
    with Echo(HOST4, 7001) as echo, client.udp() as wire:
        before = session.steered()["too_long"]
        wire.sendto(b"l" * 7000, (HOST4, 7001))
        session.wait("the long frame at the kernel", lambda: echo.received == 1)
        assert session.steered()["too_long"] == before + 1, "frames too long for the worker"
    client.run("ip", "link", "set", PEER, "mtu", "1500")
    ip("link", "set", CARD, "mtu", "1500")


def without_a_data_plane_all_is_the_kernels(session, client):
    chosen = ("203.0.113.5", 7000)
    session.steer(CHOSEN)
    ip("address", "add", "203.0.113.5/32", "dev", "lo")
    with client.udp() as wire:
        assert not answers(wire, chosen), "the kernel received a chosen packet"
        session.kill("dataplane")
        assert attached() == ["weir_steering"], "XDP programs after the data plane was killed"
        session.wait("a chosen packet at the kernel", lambda: answers(wire, chosen))
        assert session.steered()["no_socket"] > 0, "packets without a socket"
        the_kernel_answers(client, "after a kill")
        with pytest.raises(SessionError):  # the program that is left refuses the next data plane
            session.start_plane()
        assert "xdp off" in session.log("dataplane"), "the remedy is not in the log"
        session.dataplane = None
        assert attached() == [], "XDP programs after a data plane was refused"
        session.start_plane()
        assert session.stop("dataplane") == 0, "exit code of the second data plane"
        session.start_plane()
        session.kill("dataplane")
        subprocess.run(["ip", "link", "set", "dev", CARD, "xdp", "off"], check=True)  # docs/operate/steering.md
        session.start_plane()
        assert not answers(wire, chosen), "the old rules do not choose for the new data plane"
        assert session.stop("dataplane") == 0, "the data plane's exit code"
        assert attached() == [], "XDP programs after the data plane was stopped"
        session.wait("a chosen packet at the kernel", lambda: answers(wire, chosen))


def test_a_service_behind_the_worker():
    """The service's address is on a tap behind the data plane. The policy judges what comes in; answers leave by the card."""
    client = make_host()
    client.run("ethtool", "-K", PEER, "tx", "off", "tso", "off", "gso", "off")  # nobody else finishes a veth's frames
    with SharedCard("weir-steer.bpf.o") as session:
        session.steer(["to: worker, dst: 203.0.113.0/24"])
        session.start_plane("forward: pair\nports: [{port: 0}, {port: 1}]", [f"net_tap1,iface=host0,mac={shown()['address']}"])
        ip("address", "add", "203.0.113.5/32", "dev", "host0")
        ip("address", "add", "203.0.113.66/32", "dev", "host0")
        for name in ("all", "host0"):  # the way back is another one
            write("/proc/sys/net/ipv4/conf", f"{name}/rp_filter", "0")
        session.start_controld(write(session.folder, "weir.yaml", POLICY))
        session.wait_enforced()
        with Echo(""), client.udp() as wire:
            assert not answers(wire, ("203.0.113.66", 7000), ("203.0.113.5", 7000)), "the service received what the policy drops"
        data = bytes(range(256)) * 4000
        assert streamed(client, data) == data, "bytes over TCP through the worker"
        stats = session.stats()
        assert stats["packets"] > len(data) // 1500, "packets of the data plane: the stream's segments"
        assert stats["lists"]["bad"]["dropped"] >= 1, "packets that the list drops"


def streamed(client, data):
    """The service's copy of the data that the client sends."""
    with socket.create_server(("203.0.113.5", 0)) as listener:
        dialled, accepted = client.dial(listener)
        with dialled, accepted:
            sender = threading.Thread(target=lambda: (dialled.sendall(data), dialled.shutdown(socket.SHUT_WR)))
            sender.start()
            found = b"".join(iter(lambda: accepted.recv(1 << 16), b""))
            sender.join()
    return found
