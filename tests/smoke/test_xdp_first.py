"""XDP drops first, the data plane judges the rest. One controld keeps the maps of the XDP program that net_af_xdp attached,
another one the data plane's policy. XDP goes on when a controld or the data plane is killed."""

import concurrent.futures
import ipaddress
import os
import subprocess
import threading

import pytest

from steer_rig import BPF_DIR, CARD, ECHO4, HOST4, NEEDED, Echo, SharedCard, answers, attached, make_host, send_udp, wait_answer
from weir_smoke import needs_programs, needs_root, write
from wires import ip

pytestmark = [pytest.mark.timeout(180), needs_root("interfaces and XDP need it"), needs_programs(*NEEDED)]

ROUNDS = range(10)
CLEAN, XDP_BAD, PLANE_BAD = "203.0.113.5", "203.0.113.66", "203.0.113.77"
SHUT_PORT = (HOST4, 7001)  # of the host, not steered to the data plane
TO_WORKER = ["to: worker, dst: 203.0.113.0/24"]
POLICY = """\
version: 1
targets: [{target}]
lists:
  - {{name: {name}, action: drop, match: dst, entries: [{entries}]}}
"""


def test_xdp_drops_before_the_data_plane(session):
    """session: the controld of XDP."""
    client = make_host()
    with SharedCard("weir-combined.bpf.o") as plane, Echo(""), Echo(*SHUT_PORT) as shut:
        the_data_plane_makes_the_maps(plane, client)
        write_xdp_policy(session)
        start_xdp(session)
        each_plane_drops_by_its_own_policy(session, plane, client, shut)
        reloads_of_xdp_let_nothing_through(session, plane, client)
        xdp_drops_without_its_controld(session, plane, client)
        xdp_drops_without_the_data_plane(plane, client)
        start_xdp(session)
        each_plane_drops_by_its_own_policy(session, plane, client, shut)
        assert plane.stop("dataplane") == 0, "the data plane's exit code"
        assert attached() == [], "XDP programs after the data plane was stopped"


def write_policy(session, target, name, entries):
    write(session.folder, "weir.yaml", POLICY.format(target=target, name=name, entries=", ".join(entries)))


def write_xdp_policy(kernel, *more):
    write_policy(kernel, "{xdp: {interfaces: []}}", "first", [XDP_BAD, '"%s:%d"' % SHUT_PORT, *more])


def start_xdp(kernel):
    kernel.start_controld(kernel.path("weir.yaml"), targets=False)
    kernel.wait_enforced()


def received(plane):
    """Packets of the data plane."""
    return plane.stats()["packets"]


def dropped(session, name):
    """Packets that the list dropped."""
    return session.stats()["lists"].get(name, {}).get("dropped", 0)


def send_to_plane(plane, client):
    """Sends datagrams that the data plane drops: a marker for all that was sent before."""
    return send_udp(client, [PLANE_BAD], lambda: dropped(plane, "second"), ROUNDS)


def the_data_plane_makes_the_maps(plane, client):
    """The data plane comes first: it makes and pins the maps, and XDP drops nothing."""
    plane.start_plane()
    write_policy(plane, f"{{dataplane: {plane.path('dataplane.sock')}}}", "second", [PLANE_BAD])
    plane.start_controld(plane.path("weir.yaml"), targets=False)
    plane.wait_enforced()
    assert attached() == ["weir_combined"], "XDP programs on the card"
    pinned = os.listdir(BPF_DIR)
    assert {"weir_state", "weir_arenas", "weir_steer", "weir_steered"} <= set(pinned), f"pinned maps: {pinned}"
    plane.steer(TO_WORKER)
    sent = send_udp(client, [XDP_BAD], lambda: received(plane), ROUNDS)
    assert received(plane) == sent, "packets of the data plane without a policy of XDP"


def each_plane_drops_by_its_own_policy(kernel, plane, client, shut):
    before_kernel, before = kernel.stats(), plane.stats()
    before_first, before_second = dropped(kernel, "first"), dropped(plane, "second")
    by_xdp = send_udp(client, [XDP_BAD], lambda: dropped(kernel, "first"), ROUNDS)
    clean = send_udp(client, [CLEAN], lambda: received(plane), ROUNDS)
    by_plane = send_to_plane(plane, client)
    after_kernel, after = kernel.stats(), plane.stats()
    assert dropped(kernel, "first") - before_first == by_xdp, "packets that XDP drops"
    assert after_kernel["packets"] - before_kernel["packets"] >= by_xdp + clean + by_plane, "packets that XDP judges: all"
    assert after["packets"] - before["packets"] == clean + by_plane, "packets of the data plane: none that XDP drops"
    assert dropped(plane, "second") - before_second == by_plane, "packets that the data plane drops"
    with client.udp() as wire:  # no rule steers these
        wait_answer(wire, ECHO4)
        assert not answers(wire, SHUT_PORT), "the kernel answered on a port that XDP drops"
        assert dropped(kernel, "first") - before_first == by_xdp + 1, "packets that XDP drops: one for the kernel"
        assert shut.received == 0, "datagrams at a port that XDP drops"


def reloads_of_xdp_let_nothing_through(kernel, plane, client):
    """Two policies in turns name the bad address. The data plane receives every clean packet and no bad one."""
    random_hosts = [str(ipaddress.ip_address(0x0b000000 + 7919 * number)) for number in range(20000)]
    before, before_first = received(plane), dropped(kernel, "first")
    is_over = threading.Event()
    with concurrent.futures.ThreadPoolExecutor() as pool:
        sender = pool.submit(send_udp, client, [CLEAN, XDP_BAD], lambda: received(plane), iter(is_over.is_set, True))
        try:
            for number in range(10):
                write_xdp_policy(kernel, *(random_hosts if number % 2 == 0 else []))
                answer = kernel.call("reload")
                assert answer.get("ok"), f"reload {number}: {answer}"
        finally:
            is_over.set()
    by_plane = send_to_plane(plane, client)
    assert received(plane) - before == sender.result() + by_plane, "packets of the data plane: the clean ones"
    assert dropped(kernel, "first") - before_first == sender.result(), "packets that XDP drops: the bad ones"


def xdp_drops_without_its_controld(kernel, plane, client):
    write_xdp_policy(kernel)
    assert kernel.call("reload").get("ok"), "reload"
    kernel.kill("controld")
    before = received(plane)
    sent = send_udp(client, [XDP_BAD, CLEAN], lambda: received(plane), ROUNDS) + send_to_plane(plane, client)
    assert received(plane) - before == sent, "packets of the data plane while XDP has no controld"


def xdp_drops_without_the_data_plane(plane, client):
    """The program stays on the card. The kernel receives what it passes."""
    clean, bad = (CLEAN, 7000), (XDP_BAD, 7000)
    for address in (CLEAN, XDP_BAD):
        ip("address", "add", f"{address}/32", "dev", "lo")
    with client.udp() as wire:
        plane.kill("dataplane")
        assert attached() == ["weir_combined"], "XDP programs after the data plane was killed"
        plane.wait("a clean packet at the kernel", lambda: answers(wire, clean))
        for _ in range(3):
            assert not answers(wire, bad), "the kernel received what XDP drops"
        subprocess.run(["ip", "link", "set", "dev", CARD, "xdp", "off"], check=True)
        wait_answer(wire, bad)
        plane.start_plane()
        plane.wait_enforced()
        assert not answers(wire, bad), "the kernel received what XDP drops, after a restart of the data plane"
    for address in (CLEAN, XDP_BAD):
        ip("address", "del", f"{address}/32", "dev", "lo")
