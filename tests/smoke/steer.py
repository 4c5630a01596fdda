"""A card that is shared: what the steering rules choose arrives at the data plane, all else at the kernel's own services,
ARP and neighbour discovery among them; the rules change while it runs, and no frame is lost or seen twice; without rules,
and without a data plane, the kernel has everything."""

import socket
import subprocess
import threading
import time

from steer_rig import (CARD, HOST4, HOST6, PEER, Echo, SharedCard, answers, attached, make_host, send_udp, shown)
from weir_smoke import SessionError, check, equal, write
from wires import ip

POLICY = """\
version: 1
lists:
  - {name: bad, action: drop, match: dst, entries: [203.0.113.66, "2001:db8:113::66"]}
"""
CHOSEN = ["to: kernel, proto: tcp, dport: 22", "to: worker, dst: 203.0.113.0/24", 'to: worker, dst: "2001:db8:113::/48"']
N = 500
AHEAD = 512  # datagrams that are under way at most: less than a ring holds


def kernel_is_there(client, what):
    client.forget_neighbours()  # ARP and neighbour discovery come first
    with client.udp() as v4, client.udp(socket.AF_INET6) as v6:
        check(answers(v4, (HOST4, 7000), tries=3), f"{what}: the kernel's UDP service answers over IPv4")
        check(answers(v6, (HOST6, 7000), tries=3), f"{what}: the kernel's UDP service answers over IPv6")
    check(client.ping(socket.AF_INET, HOST4), f"{what}: ping over IPv4")
    check(client.ping(socket.AF_INET6, HOST6), f"{what}: ping over IPv6")
    with socket.create_server((HOST4, 0)) as listener:
        dialled = client.call(lambda: socket.create_connection(listener.getsockname(), timeout=10))
        accepted, _ = listener.accept()
        dialled.sendall(b"hello")
        equal(accepted.recv(16), b"hello", f"{what}: a TCP connection to the kernel")
        dialled.close()
        accepted.close()


def chosen_arrives(session, client):
    """Exactly what is chosen, with the data plane's own verdicts."""
    before = session.stats()
    send_udp(client, ("203.0.113.5", 53), N)
    send_udp(client, ("203.0.113.66", 53), N)
    send_udp(client, ("2001:db8:113::5", 53), N)
    send_udp(client, ("2001:db8:113::66", 53), N)
    session.wait("the chosen traffic", lambda: session.stats()["packets"] >= before["packets"] + 4 * N)
    time.sleep(0.3)
    after = session.stats()
    equal(after["packets"] - before["packets"], 4 * N, "packets of the data plane: the chosen ones and no other")
    equal(after["dropped"] - before["dropped"], 2 * N, "packets that its policy drops")
    shown = session.controlctl_steer("--show")
    equal([rule["taken"]["packets"] for rule in shown["rules"]], [0, 2 * N, 2 * N], "packets of each rule")
    check(shown["default_taken"]["packets"] > 0 and shown["link_taken"]["packets"] > 0,
          f"the kernel's traffic is counted, too: {shown}")


def rules_change(session, client, echo):
    """Datagrams to one service while the rules hand them to and fro: each arrives once, at one of both."""
    before, received = session.stats()["packets"], echo.received
    stop = threading.Event()
    sent = [0]

    def arrived():
        return session.stats()["packets"] - before + echo.received - received

    def send():
        with client.udp() as wire:
            while not stop.is_set():
                for _ in range(16):
                    wire.sendto(b"y" * 32, (HOST4, 7000))
                sent[0] += 16
                time.sleep(0.002)
                while arrived() + AHEAD < sent[0] and not stop.is_set():  # a worker that is stopped for long loses none
                    time.sleep(0.002)

    sender = threading.Thread(target=send)
    sender.start()
    for number in range(40):
        session.steer(CHOSEN + (["to: worker, proto: udp, dport: 7000"] if number % 2 == 0 else []))
    stop.set()
    sender.join()
    session.wait("every datagram", lambda: arrived() >= sent[0])
    to_worker, to_kernel = session.stats()["packets"] - before, echo.received - received
    print(f"40 changes of the rules: {sent[0]} datagrams, {to_worker} to the worker, {to_kernel} to the kernel")
    equal(to_worker + to_kernel, sent[0], "datagrams that arrived, while the rules changed")
    check(to_worker > 0 and to_kernel > 0, "both had some")


def worker_by_default(session, client):
    """Everything but one service goes to the worker; the link's own frames stay, so that there is a link."""
    session.steer(["to: kernel, proto: udp, dport: 7000", "to: kernel, proto: udp, sport: 7000"], default="worker")
    client.forget_neighbours()
    with client.udp() as v4, client.udp(socket.AF_INET6) as v6:
        check(answers(v4, (HOST4, 7000), tries=3), "the one service answers over IPv4")
        check(answers(v6, (HOST6, 7000), tries=3), "the one service answers over IPv6")
    before = session.stats()["packets"]
    check(not client.ping(socket.AF_INET, HOST4, 1), "a ping goes to the worker, which does not answer")
    equal(session.stats()["packets"], before + 1, "the ping at the data plane")
    before = session.stats()["not_ip"]
    session.steer(["to: kernel, proto: udp, dport: 7000"], link="worker")
    client.forget_neighbours()
    with client.udp() as v4:
        check(not answers(v4, (HOST4, 7000), 1), "with `link: worker` nobody answers ARP")
    session.wait("ARP at the data plane", lambda: session.stats()["not_ip"] > before)


def fragments_stay_together(session, client):
    """Fragments have no ports for the rules, the first one neither."""
    session.steer(["to: worker, proto: udp, dport: 7001"])
    with Echo(socket.AF_INET, HOST4, 7001) as echo, client.udp() as wire:
        before = session.stats()["packets"]
        wire.sendto(b"z" * 100, (HOST4, 7001))
        session.wait("the small datagram at the data plane", lambda: session.stats()["packets"] == before + 1)
        wire.sendto(b"z" * 4000, (HOST4, 7001))
        session.wait("the large one at the kernel, whole", lambda: echo.received == 1)
        equal(session.stats()["packets"], before + 1, "fragments at the data plane")


def longer_than_a_buffer(session, client):
    """AF_XDP takes one buffer: what does not fit stays in the kernel, and is counted."""
    ip("link", "set", CARD, "mtu", "9000")
    client.run("ip", "link", "set", PEER, "mtu", "9000")
    session.steer(["to: worker, proto: udp, dport: 7001"])
    with Echo(socket.AF_INET, HOST4, 7001) as echo, client.udp() as wire:
        before = session.steered()["too_long"]
        wire.sendto(b"l" * 7000, (HOST4, 7001))
        session.wait("the long frame at the kernel", lambda: echo.received == 1)
        equal(session.steered()["too_long"], before + 1, "frames too long for the worker")
    client.run("ip", "link", "set", PEER, "mtu", "1500")
    ip("link", "set", CARD, "mtu", "1500")


def plane_goes(session, client):
    """Without it the kernel has everything, also what is chosen."""
    session.steer(CHOSEN)
    ip("address", "add", "203.0.113.5/32", "dev", "lo")
    echo = Echo(socket.AF_INET, "203.0.113.5", 7000)
    with client.udp() as wire:
        check(not answers(wire, ("203.0.113.5", 7000), 1), "what is chosen is the data plane's")
        session.kill("dataplane")
        equal(attached(), ["weir_steering"], "a killed data plane leaves the program")
        session.wait("what is chosen at the kernel", lambda: answers(wire, ("203.0.113.5", 7000), 1))
        check(session.steered()["no_socket"] > 0, "and is counted as without a socket")
        kernel_is_there(client, "after a kill")
        try:
            session.start_plane()
            check(False, "the program that is left refuses the next data plane")
        except SessionError:
            check("xdp off" in session.log("dataplane"), "what to do is said")
        session.dataplane = None
        equal(attached(), [], "and went with the one that was refused")
        session.start_plane()
        equal(session.stop("dataplane"), 0, "exit code of the second data plane")
        session.start_plane()
        session.kill("dataplane")
        subprocess.run(["ip", "link", "set", "dev", CARD, "xdp", "off"], check=True)  # docs/operate/steering.md
        session.start_plane()
        check(not answers(wire, ("203.0.113.5", 7000), 1), "what is chosen is the new data plane's, with the old rules")
        equal(session.stop("dataplane"), 0, "the data plane's exit code")
        equal(attached(), [], "a data plane that was asked to stop takes the program along")
        check(answers(wire, ("203.0.113.5", 7000), tries=3), "and the kernel has what was chosen")
    echo.close()


def service_behind_the_worker(client):
    """The host's own service, its address on a tap behind the data plane: judged as it comes in; what it answers leaves
    by the card."""
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
        with Echo(socket.AF_INET, "203.0.113.66", 7000), client.udp() as wire:
            check(not answers(wire, ("203.0.113.66", 7000), 1), "what the policy drops does not come to its service")
        with socket.create_server(("203.0.113.5", 0)) as listener:
            dialled = client.call(lambda: socket.create_connection(listener.getsockname(), timeout=20))
            accepted, _ = listener.accept()
            data, found = bytes(range(256)) * 4000, b""
            sender = threading.Thread(target=lambda: (dialled.sendall(data), dialled.shutdown(socket.SHUT_WR)))
            sender.start()
            accepted.settimeout(20)
            while part := accepted.recv(1 << 16):
                found += part
            sender.join()
            check(found == data, f"a TCP stream through the worker: {len(found)} of {len(data)} bytes")
            dialled.close()
            accepted.close()
        stats = session.stats()
        check(stats["packets"] > len(data) // 1500, f"the stream's segments are the data plane's: {stats['packets']}")
        check(stats["lists"]["bad"]["dropped"] >= 1, "it dropped what its policy names")


client = make_host()
with SharedCard("weir-steer.bpf.o") as session, Echo(socket.AF_INET, HOST4, 7000) as echo, \
        Echo(socket.AF_INET6, HOST6, 7000):
    session.start_plane()
    session.start_controld(write(session.folder, "weir.yaml", POLICY))
    session.wait_enforced()
    equal(attached(), ["weir_steering"], "the program on the card")

    kernel_is_there(client, "no rules")
    before = session.stats()["packets"]
    send_udp(client, ("203.0.113.5", 53), 10)
    time.sleep(0.3)
    equal(session.stats()["packets"], before, "no rules: nothing for the data plane")
    equal(session.stats()["packets"], 0, "no rules: nothing ever for the data plane")
    steered = session.steered()
    equal((steered["to_worker"], steered["to_kernel"]), (0, 0), f"no rules: all is counted so: {steered}")

    session.steer(CHOSEN)
    kernel_is_there(client, "chosen prefixes")
    chosen_arrives(session, client)
    rules_change(session, client, echo)
    worker_by_default(session, client)
    fragments_stay_together(session, client)
    longer_than_a_buffer(session, client)
    session.controlctl_steer("--clear")
    kernel_is_there(client, "rules cleared")
    plane_goes(session, client)
service_behind_the_worker(client)
