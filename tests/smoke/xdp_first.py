"""XDP drops first, the data plane judges the rest: one controld keeps the maps of the XDP program that net_af_xdp
attached, another one the data plane's policy. What XDP drops reaches neither the data plane nor the kernel; its policy
changes under traffic; it goes on when a controld or the data plane is killed."""

import ipaddress
import os
import socket
import subprocess
import threading
import time

from steer_rig import BPF_DIR, CARD, HOST4, Echo, SharedCard, answers, attached, make_host, send_udp
from weir_smoke import BUILD, Session, check, equal, write
from wires import ip

N = 300
AHEAD = 512  # frames that are under way at most: less than a ring holds, however long a worker is stopped
CLEAN, XDP_BAD, PLANE_BAD = "203.0.113.5", "203.0.113.66", "203.0.113.77"
TO_WORKER = ["to: worker, dst: 203.0.113.0/24"]
POLICY = """\
version: 1
targets: [{target}]
lists:
  - {{name: {name}, action: drop, match: dst, entries: [{entries}]}}
"""


def write_policy(session, target, name, entries):
    return write(session.folder, "weir.yaml", POLICY.format(target=target, name=name, entries=", ".join(entries)))


def xdp_policy(kernel, *entries):
    return write_policy(kernel, "{xdp: {interfaces: []}}", "first", entries)


def start_xdp(kernel):
    kernel.start_controld(kernel.path("weir.yaml"), targets=False)
    kernel.wait_enforced()


def dropped_first(kernel):
    return kernel.stats()["lists"].get("first", {}).get("dropped", 0)


def each_plane_has_its_own(kernel, plane, client):
    before_kernel, before = kernel.stats(), plane.stats()
    for address in (CLEAN, XDP_BAD, PLANE_BAD):
        send_udp(client, (address, 53), N)
    plane.wait("the rest", lambda: plane.stats()["packets"] >= before["packets"] + 2 * N)
    time.sleep(0.3)
    after_kernel, after = kernel.stats(), plane.stats()
    equal(after_kernel["lists"]["first"]["dropped"] - before_kernel["lists"].get("first", {}).get("dropped", 0), N,
          "frames that XDP dropped")
    check(after_kernel["packets"] - before_kernel["packets"] >= 3 * N, "XDP judges every frame")
    equal(after["packets"] - before["packets"], 2 * N, "frames that the data plane sees: none that XDP dropped")
    equal(after["lists"]["second"]["dropped"] - before["lists"].get("second", {}).get("dropped", 0), N,
          "frames that the data plane drops")
    # What XDP passes and no rule chooses is the kernel's; what it drops is not, also for the kernel.
    with client.udp() as wire:
        check(answers(wire, (HOST4, 7000), tries=3), "the kernel's service answers")
        check(not answers(wire, (HOST4, 7000 + 1), 0.5), "but not where XDP drops")


def reload_under_traffic(kernel, plane, client):
    """Policies of XDP in turns, both of which name the bad address: it never gets through, every other frame does."""
    random_hosts = [str(ipaddress.ip_address(0x0b000000 + 7919 * number)) for number in range(20000)]
    before, dropped = plane.stats()["packets"], dropped_first(kernel)
    stop = threading.Event()
    sent = [0]

    def send():
        with client.udp() as wire:
            while not stop.is_set():
                for _ in range(16):
                    wire.sendto(b"c", (CLEAN, 53))
                    wire.sendto(b"b", (XDP_BAD, 53))
                sent[0] += 16
                time.sleep(0.003)
                while plane.stats()["packets"] - before + AHEAD < sent[0] and not stop.is_set():
                    time.sleep(0.002)

    sender = threading.Thread(target=send)
    sender.start()
    for number in range(10):
        xdp_policy(kernel, XDP_BAD, *(random_hosts if number % 2 == 0 else []))
        answer = kernel.call("reload")
        check(answer.get("ok"), f"reload {number}: {answer}")
    stop.set()
    sender.join()
    plane.wait("every clean frame", lambda: plane.stats()["packets"] - before >= sent[0])
    time.sleep(0.3)
    print(f"10 reloads of XDP: {sent[0]} clean frames and as many bad ones")
    equal(plane.stats()["packets"] - before, sent[0], "frames at the data plane: the clean ones")
    equal(dropped_first(kernel) - dropped, sent[0], "frames that XDP dropped: the bad ones")


def plane_is_killed(kernel, plane, client):
    """The program stays: it goes on dropping, and the kernel has the rest."""
    for address in (CLEAN, XDP_BAD):
        ip("address", "add", f"{address}/32", "dev", "lo")
    with Echo(socket.AF_INET, CLEAN, 7002), Echo(socket.AF_INET, XDP_BAD, 7002), client.udp() as wire:
        plane.kill("dataplane")
        equal(attached(), ["weir_combined"], "a killed data plane leaves the program")
        plane.wait("clean frames at the kernel", lambda: answers(wire, (CLEAN, 7002), 1))
        check(not answers(wire, (XDP_BAD, 7002), 0.5, tries=3), "XDP goes on dropping")
        subprocess.run(["ip", "link", "set", "dev", CARD, "xdp", "off"], check=True)
        check(answers(wire, (XDP_BAD, 7002), tries=3), "without the program nothing drops")
        plane.start_plane()
        plane.wait_enforced()
        check(not answers(wire, (XDP_BAD, 7002), 0.5), "it drops again at once")
    for address in (CLEAN, XDP_BAD):
        ip("address", "del", f"{address}/32", "dev", "lo")


client = make_host()
with SharedCard("weir-combined.bpf.o") as plane, Session(BUILD) as kernel, Echo(socket.AF_INET, HOST4, 7000), \
        Echo(socket.AF_INET, HOST4, 7001):
    # The data plane comes first: the maps are made and pinned for it, and hold nothing.
    plane.start_plane()
    plane.start_controld(write_policy(plane, f"{{dataplane: {plane.path('dataplane.sock')}}}", "second", [PLANE_BAD]),
                         targets=False)
    plane.wait_enforced()
    equal(attached(), ["weir_combined"], "the program on the card")
    pinned = os.listdir(BPF_DIR)
    check({"weir_state", "weir_arenas", "weir_steer", "weir_steered"} <= set(pinned), f"pinned maps: {pinned}")
    plane.steer(TO_WORKER)
    send_udp(client, (XDP_BAD, 53), N)
    plane.wait("frames that no policy of XDP names", lambda: plane.stats()["packets"] == N)

    xdp_policy(kernel, XDP_BAD, f'"{HOST4}:7001"')
    start_xdp(kernel)
    each_plane_has_its_own(kernel, plane, client)
    reload_under_traffic(kernel, plane, client)
    xdp_policy(kernel, XDP_BAD, f'"{HOST4}:7001"')
    check(kernel.call("reload").get("ok"), "reload")
    kernel.kill("controld")
    before = plane.stats()["packets"]
    send_udp(client, (XDP_BAD, 53), N)
    send_udp(client, (CLEAN, 53), N)
    plane.wait("clean frames", lambda: plane.stats()["packets"] >= before + N)
    equal(plane.stats()["packets"], before + N, "without its controld XDP goes on dropping")
    plane_is_killed(kernel, plane, client)
    start_xdp(kernel)
    each_plane_has_its_own(kernel, plane, client)
    equal(plane.stop("dataplane"), 0, "the data plane's exit code")
    equal(attached(), [], "a data plane that was asked to stop takes the program along")
