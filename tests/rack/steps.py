"""What is done on the server, in this order, and what has to be so after each step."""

import contextlib
import itertools
import json
import os
import re
import socket
import struct
import time

from machine import Failed
from pairs import INNOCENT, LISTED, Pairs
from until import until

WAIT_SECONDS = 900         # for what comes sooner or later; no step is hurried
PING_SECONDS = 3
SERVER, HOST, HOST_LISTED = "192.0.2.2", "192.0.2.1", "203.0.113.9"  # of the interface that XDP guards
KEPT = "203.0.113.99"       # added before the upgrade
UNITS = ("weir-controld.service", "weir-dataplane@main.service")
POLICY = """version: 1
state_dir: /var/lib/weir
targets:
  - dataplane: /run/weir-dataplane/main/dataplane.sock
  - xdp: {{interfaces: [{interface}]}}
lists:
  - {{name: threats, action: drop, match: either, file: lists/threats.txt}}
  - {{name: blocked, action: drop, dynamic: true}}
"""
APT = "DEBIAN_FRONTEND=noninteractive apt-get -y -q -o Dpkg::Options::=--force-confold"
LIMITS = {"weir-controld.service": 2.0}  # of systemd-analyze security
SERVICES_PAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../docs/operate/services.md")
FRAMES = 20                 # to another kind of port
SEND = """
import socket
line = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
line.bind(("{interface}", 0))
for _ in range({frames}):
    line.send(bytes.fromhex("ffffffffffff020000000001" "0800" "4500001c00000000401166cf" "0a0000010a000002" "0035003500080000") + bytes(18))
"""


def drop_in(lead):
    """The one that the page shows behind this text."""
    with open(SERVICES_PAGE, encoding="utf-8") as file:
        page = file.read()
    lines = page[page.index("\n" + lead):].split("\n\n")[1].splitlines()
    return "".join(line.removeprefix("    ") + "\n" for line in lines)


def has_answer(raw, number):
    """Whether this ping's answer is among what came."""
    with contextlib.suppress(BlockingIOError):
        while True:
            answer = raw.recv(2048)
            if answer[20] == 0 and answer[24:28] == struct.pack(">HH", 0x7765, number):
                return True
    return False


class Steps:
    def __init__(self, server):
        self.server = server
        self.pairs, self.pings = None, itertools.count(1)
        self.failures, self.checks, self.seconds, self.parts, self.security = [], 0, {}, {}, {}

    def check(self, good, text):
        self.checks += 1
        if not good:
            self.failures.append(text)
        return good

    def run(self, names=()):
        for step in (self.installs, self.blocks, self.guards_by_xdp, self.obeys_an_admin, self.reloads,
                     self.runs_on_other_ports, self.is_hardened,
                     self.survives_a_reboot, self.upgrades, self.logs_sanely, self.is_removed):
            if names and step.__name__ not in names:
                continue
            start, known = time.monotonic(), len(self.failures)
            try:
                step()
            finally:
                self.seconds[step.__name__] = round(time.monotonic() - start, 1)
                print(f"{step.__name__}: {self.seconds[step.__name__]:.0f} s", flush=True)
            for failure in self.failures[known:]:
                print(f"  {failure}", flush=True)

    # What steps are made of.

    def timed(self, name, command):
        start = time.monotonic()
        try:
            text = self.server.work(command)
        except Failed as failure:
            raise Failed(f"{failure}\n{self.about()}") from None
        self.parts[name] = round(time.monotonic() - start, 1)
        return text

    def wait(self, what, condition, seconds=WAIT_SECONDS):
        return until(what, condition, seconds, Failed, about=lambda: f"\n{self.about()}", turn=0.2)

    def about(self):
        """What a reader of a failure wants to see."""
        return self.server.shell("systemctl --no-pager -n 15 status 'weir-*'; journalctl -b --no-pager -p notice -n 30", None)

    def state(self, unit):
        return self.server.shell(f"systemctl show -P ActiveState {unit}").strip()

    def pid(self, unit):
        return int(self.server.shell(f"systemctl show -P MainPID {unit}"))

    def interface(self):
        return self.server.shell(f"ls /sys/bus/pci/devices/{self.server.card('host0')}/virtio*/net").strip()

    def put(self, path, text):
        self.server.ask("put", path=path, content=text)

    def check_blocked(self, when, count=10):
        """From now on, so many pairs: the innocent frame comes out, and the listed one does not."""
        since = self.pairs.now()
        self.wait(f"{when}: innocent frames on the data plane's ports", lambda: len(self.pairs.passed(since)) >= count)
        self.check(not self.pairs.leaked(since), f"{when}: listed frames came out of the data plane")

    def answers(self, source):
        """Whether a ping from this address is answered, before another one that an innocent address sends after it. Both take the
        same way, which keeps the order."""
        with contextlib.ExitStack() as stack:
            raws = [stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)) for _ in range(2)]
            numbers = [next(self.pings) & 0xffff for _ in raws]
            for raw, address, number in zip(raws, (source, HOST), numbers):
                raw.bind((address, 0))
                raw.setblocking(False)
                words = struct.pack(">BBHHH", 8, 0, 0, 0x7765, number)
                total = sum(struct.unpack(">4H", words))
                total = (total & 0xffff) + (total >> 16)
                raw.sendto(struct.pack(">BBHHH", 8, 0, ~total & 0xffff, 0x7765, number), (SERVER, 0))
            until("an answer to the innocent ping", lambda: has_answer(raws[1], numbers[1]), PING_SECONDS, error=None)
            return has_answer(raws[0], numbers[0])

    def check_guarded(self, when):
        # `ready` does not wait for XDP: systemd goes on some moments before the program is attached.
        self.wait(f"{when}: XDP enforces", lambda: any(
            target["socket"].startswith("xdp:") and target["acknowledged"]
            for target in json.loads(self.server.shell("controlctl status --json"))["targets"]))
        self.wait(f"{when}: an answer to an innocent ping", lambda: self.answers(HOST))
        self.check(not self.answers(HOST_LISTED), f"{when}: a listed ping was answered")
        self.check(self.answers(HOST), f"{when}: an innocent ping was not answered")

    def bring_up_interface(self):
        name = self.interface()
        self.server.shell(f"ip link set {name} up && ip address replace {SERVER}/24 dev {name} && ip route replace default via {HOST}")

    # The steps.

    def installs(self):
        shell = self.server.shell
        self.wait("a running system", lambda: shell("systemctl is-system-running", None).strip() in ("running", "degraded"))
        self.check(shell("systemctl --failed --plain --no-legend", None).strip() == "", "units failed before anything was installed")
        self.server.work(f"{APT} update")
        self.pairs = Pairs("filter0", "filter1")
        self.pairs.start()
        self.begun = time.monotonic()
        text = self.timed("apt", f"{APT} install /mnt/weir/weir-control_*.deb /mnt/weir/weir-dataplane_*.deb")
        self.apt_text = text
        self.check(self.state("weir-controld.service") == "active", f"controld does not run after the installation\n{text}")
        self.check(shell("systemctl list-units --plain --no-legend 'weir-dataplane@*'").strip() == "",
                   "a data plane runs that nobody asked for")
        self.check(shell("systemctl is-enabled weir-controld.service").strip() == "enabled", "controld would not start at boot")

    def blocks(self):
        """Two cards for the data plane, a list, and the first frame that does not come out."""
        cards = [self.server.card(name) for name in ("filter0", "filter1")]
        self.put("/etc/weir/lists/threats.txt", f"{LISTED}\n{HOST_LISTED}\n")
        self.put("/etc/weir/weir.yaml", POLICY.format(interface=self.interface()))
        self.put("/etc/weir/dataplane-main.env", f'EAL_OPTIONS="-l 1 -a {cards[0]} -a {cards[1]}"\n')
        self.server.shell("chgrp -R weir /etc/weir/weir.yaml; chmod 640 /etc/weir/weir.yaml; chmod -R a+rX /etc/weir/lists")
        self.timed("cards", "; ".join(f"driverctl set-override {card} vfio-pci" for card in cards))
        since = self.pairs.now()
        self.timed("data plane", "systemctl enable --now weir-dataplane@main.service")
        # A restart: controld gave up at its start what XDP needs, since no target was there. The reload waits for the outcome.
        self.timed("policy", "systemctl restart weir-controld.service && systemctl reload weir-controld.service")
        blocked = self.wait("the first frame that is dropped", lambda: self.pairs.first_block(since))
        self.parts["install_to_block"] = round(blocked - self.begun, 1)
        self.check_blocked("after the installation")
        self.check_doctor(cards)
        status = json.loads(self.server.shell("controlctl status --json"))
        self.check(all(target["connected"] for target in status["targets"]), f"not all targets are up: {status['targets']}")

    def check_doctor(self, cards):
        told = json.loads(self.server.shell(f"dataplane -l 1 -a {cards[0]} -- --config /etc/weir/dataplane-main.yaml --doctor --json", None))
        found = {finding["check"]: finding for section in told["sections"] for finding in section["findings"]}
        for check in ("drivers", cards[0]):
            self.check(found.get(check, {}).get("health") == "ok", f"the doctor says of {check}: {found.get(check)}")

    def guards_by_xdp(self):
        os.system(f"ip address add {HOST}/24 dev host0; ip address add {HOST_LISTED}/32 dev host0")
        self.bring_up_interface()
        self.check_guarded("after the installation")

    def obeys_an_admin(self):
        shell = self.server.shell
        shell("useradd -m alice && useradd -m bob && useradd -m carol && usermod -aG weir-admin alice && usermod -aG weir carol")
        for who, what in (("bob", "anybody"), ("carol", "a member of the read group")):
            told = shell(f"runuser -u {who} -- controlctl add {INNOCENT} --list blocked; echo code $?", None)
            self.check("code 0" not in told, f"{what} may change what is enforced: {told}")
        shell("runuser -u carol -- controlctl status")
        shell(f"runuser -u alice -- controlctl add {INNOCENT} --list blocked")
        since = self.pairs.now() + 1
        self.wait("pairs after the order", lambda: self.pairs.now() > since + 20)
        self.check(not self.pairs.passed(since), "what an administrator added is not dropped")
        shell(f"runuser -u alice -- controlctl del {INNOCENT} --list blocked")
        self.check_blocked("after an administrator took back what he had added")

    def reloads(self):
        self.server.shell("echo 'lists: [' >> /etc/weir/weir.yaml")
        told = self.server.shell("systemctl reload weir-controld.service; echo code $?", None)
        self.check("code 0" not in told, f"a reload with a broken policy counts as good: {told}")
        self.check(self.state("weir-controld.service") == "active", "controld ended by a broken policy")
        self.check_blocked("after a reload that failed")
        self.server.shell("sed -i '$d' /etc/weir/weir.yaml && systemctl reload weir-controld.service")
        self.check_blocked("after a reload")

    def runs_on_other_ports(self):
        """With the drop-ins of docs/operate/services.md, a data plane starts and forwards on what its unit is not made for."""
        shell = self.server.shell
        shell("sysctl -q -w net.ipv6.conf.default.disable_ipv6=1; cp /etc/weir/dataplane-main.yaml /etc/weir/dataplane-other.yaml; "
              "for n in 0 1; do ip link add port$n type veth peer name far$n && ip link set port$n up && ip link set far$n up || exit 1; done")
        kernels, tap = drop_in("Interfaces that stay with the kernel"), "net_tap{n},iface=tap{n}"
        for name, text, vdev, ends in (("af_packet", kernels.replace("eth1", "port0"), "net_af_packet{n},iface=port{n}", ("far0", "far1")),
                                       ("tap", kernels[kernels.index("[Service]"):], tap, ("tap0", "tap1")),
                                       ("af_xdp", drop_in("`net_af_xdp` loads"), "net_af_xdp{n},iface=port{n}", ("far0", "far1"))):
            ports = " ".join("--vdev " + vdev.format(n=n) for n in (0, 1))
            self.start_other(name, text, f"-l 0 --no-pci --no-huge -m 256 {ports}")
            counted = f"/sys/class/net/{ends[1]}/statistics/rx_packets"
            before = int(shell(f"cat {counted}"))
            shell("python3 -c '" + SEND.format(interface=ends[0], frames=FRAMES).replace("'", '"') + "'")
            self.wait(f"{name}: frames on the other side", lambda path=counted, had=before: int(shell(f"cat {path}")) >= had + FRAMES)
            self.stop_other()
        # uio: root, and the cards of the other data plane.
        cards = [self.server.card(name) for name in ("filter0", "filter1")]
        shell(f"systemctl stop {UNITS[1]}; modprobe uio_pci_generic; " + "; ".join(f"driverctl set-override {card} uio_pci_generic" for card in cards))
        since = self.pairs.now() + 1
        self.start_other("uio", drop_in("`uio`, or"), "-l 1 " + " ".join(f"-a {card}" for card in cards))
        self.check("User=root" in shell("systemctl cat weir-dataplane@other") and
                   shell(f"stat -c %U /proc/{self.pid('weir-dataplane@other.service')}").strip() == "weir-dataplane", "uio: it stays root")
        self.wait("uio: innocent frames", lambda: len(self.pairs.passed(since)) >= 10)
        self.stop_other()
        shell("; ".join(f"driverctl set-override {card} vfio-pci" for card in cards) + f"; systemctl start {UNITS[1]}")
        self.check_blocked("on vfio-pci again")

    def start_other(self, name, text, options):
        self.put("/etc/systemd/system/weir-dataplane@other.service.d/override.conf", text)
        self.put("/etc/weir/dataplane-other.env", f'EAL_OPTIONS="{options}"\n')
        self.timed(name, "systemctl daemon-reload && systemctl start weir-dataplane@other.service")

    def stop_other(self):
        self.server.shell("systemctl stop weir-dataplane@other.service")

    def is_hardened(self):
        for unit in (*UNITS, "weir-hugepages.service"):
            text = self.server.shell(f"systemd-analyze security --no-pager {unit}", None)
            found = re.search(r"Overall exposure level for \S+: (\d+\.\d+)", text)
            if self.check(found is not None, f"systemd-analyze security {unit}: {text[-300:]}"):
                value = float(found.group(1))
                self.security[unit] = value
                self.check(value <= LIMITS.get(unit, 10), f"systemd-analyze security {unit}: {value} is more than {LIMITS.get(unit)}")

    def survives_a_reboot(self):
        """The data plane enforces what it has on disk, with no controld there."""
        self.server.shell("systemctl mask weir-controld.service")
        since = self.pairs.now()
        start = time.monotonic()
        self.server.reboot()
        self.parts["reboot"] = round(time.monotonic() - start, 1)
        self.wait("innocent frames after the reboot", lambda: len(self.pairs.passed(since)) >= 10)
        self.check(self.state("weir-controld.service") != "active", "controld runs, although it is masked")
        self.check_blocked("after the reboot, before controld is there")
        self.check(not self.pairs.leaked(since), "listed frames came out while the server started again")
        self.timed("controld after the reboot", "systemctl unmask weir-controld.service && systemctl start weir-controld.service")
        self.check_blocked("after the reboot, with controld")
        self.bring_up_interface()
        self.check_guarded("after the reboot")
        self.check(self.state("weir-controld.service") == "active", "controld does not run after the reboot")

    def upgrades(self):
        before = {unit: self.pid(unit) for unit in UNITS}
        self.server.shell(f"controlctl add {KEPT} --list blocked --comment kept")
        since = self.pairs.now()
        text = self.timed("upgrade", f"{APT} install /mnt/next/weir-control_*.deb /mnt/next/weir-dataplane_*.deb")
        after = {unit: self.pid(unit) for unit in UNITS}
        self.check(after[UNITS[0]] not in (0, before[UNITS[0]]), "the upgrade did not restart controld")
        self.check(after[UNITS[1]] == before[UNITS[1]], "the upgrade restarted a data plane that forwards")
        self.check("systemctl restart weir-dataplane@main" in text, f"the upgrade does not say what to restart:\n{text}")
        self.check_blocked("after the upgrade")
        self.check(not self.pairs.leaked(since), "listed frames came out during the upgrade")
        self.check_guarded("after the upgrade")
        self.check(KEPT in self.server.shell("controlctl list blocked --entries"), "an entry that was added is gone after the upgrade")
        self.check("threats" in self.server.shell("cat /etc/weir/weir.yaml"), "the upgrade took the operator's policy")
        self.timed("restart of the data plane", "systemctl restart weir-dataplane@main.service")
        self.check_blocked("after the data plane was restarted")
        self.check(not self.pairs.leaked(since), "listed frames came out while the data plane was restarted")

    def logs_sanely(self):
        units = " ".join(f"-u {unit}" for unit in (*UNITS, "weir-hugepages.service"))
        errors = self.server.shell(f"journalctl --no-pager -q -o cat -p err {units}")
        self.journal = self.server.shell(f"journalctl --no-pager -o short-monotonic {units}")
        # The reload with a broken policy is an error, as it should be.
        unexpected = [line for line in errors.splitlines() if "weir.yaml" not in line and "reload" not in line.lower()]
        self.check(not unexpected, "errors in the journal:\n" + "\n".join(unexpected[:20]))

    def is_removed(self):
        shell = self.server.shell
        text = self.timed("removal", f"{APT} remove weir-control weir-dataplane")
        self.check("/var/lib/weir" in text and "kept" in text, f"the removal does not say what is left:\n{text}")
        self.check(shell("pgrep -x controld; pgrep -x dataplane", None).strip() == "", "programs run after the removal")
        self.check(self.answers(HOST_LISTED), "XDP drops after the removal")
        shell("test -d /var/lib/weir && test -d /var/lib/weir-dataplane/main && test -f /etc/weir/weir.yaml")
        text = self.timed("purge", f"{APT} purge weir-control weir-dataplane")
        left = shell("ls -d /var/lib/weir /var/lib/weir-dataplane /etc/weir/weir.yaml /etc/default/weir-* /run/weir", None)
        self.check(re.search(r"^/", left, re.M) is None, f"left after the purge: {left}")
        self.check("lists" in text, f"the purge does not say that the operator's lists stay:\n{text}")
        self.check(shell("systemctl --failed --plain --no-legend", None).strip() == "", "units failed")
