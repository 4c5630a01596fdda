"""The units of configs/systemd: systemd-analyze finds no fault in them, and the programs run as they say.

The programs start as users of their own, and tell systemd when they are ready and for its watchdog that they go on. Members of
weir-admin change the policy, members of weir read it. Without controld the data plane enforces the last good policy."""

import grp
import json
import os
import pwd
import re
import shutil
import socket
import stat
import subprocess

import pytest

from weir_smoke import BUILD, ROOT, needs_programs, needs_root, read, write
from held_threads import held, threads
from session import eal_lcores
from units import SERVICES, UNITS, Manager, calls_allowed, calls_named, copy_programs, exposure, installed, settings
from until import until

SOON = 60          # seconds for what must come, on a machine that does much else
MOST = {"weir-controld.service": 2.0, "weir-crowdsec.service": 1.5, "weir-dataplane@.service": 1.5, "weir-flowspec@.service": 1.5,
        "weir-hugepages.service": 1.5}  # exposure, as systemd-analyze counts it
WATCHDOG_US = 1_000_000
TURNS = 16         # of the heartbeat, which looks 8 times in WATCHDOG_US
DATAPLANE, CONTROLD = "weir-dataplane@.service", "weir-controld.service"
NODES = ("sys/kernel/mm", "sys/devices/system/node/node0", "sys/devices/system/node/node1")

needs_systemd = needs_programs("systemd-analyze")


def shell(*command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode == 0, f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}"
    return done.stdout


@needs_systemd
def test_systemd_analyze_finds_no_fault(folder):
    programs = {name: os.path.join(BUILD, place, name)
                for name, place in (("dataplane", "dataplane"), ("controld", "control"), ("controlctl", "control"))}
    installed(folder, programs)
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", *(os.path.join(folder, name) for name in os.listdir(folder))],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          env={**os.environ, "SYSTEMD_UNIT_PATH": folder + ":"})
    lines = [line for line in done.stdout.splitlines() if "weir" in line]
    assert (done.returncode, lines) == (0, []), f"systemd-analyze verify: {done.stdout}"


@needs_systemd
@pytest.mark.parametrize("unit", SERVICES)
def test_a_unit_exposes_little(unit):
    found, said = exposure(unit)
    assert found <= MOST[unit], f"exposure {found}, at most {MOST[unit]}"
    assert said == "", "systemd-analyze security warns"


@needs_systemd
@pytest.mark.parametrize("unit, lists", (
    (DATAPLANE, ("dataplane/start/syscall_filter.cpp",)),
    (CONTROLD, ("control/daemon/rights.cpp", "control/sources/fetch/transfer.cpp"))), ids=("dataplane", "controld"))
def test_a_unit_allows_every_system_call_that_its_program_allows(unit, lists):
    named = calls_named("common/confine/system_calls.cpp", *lists)
    assert len(named) > 100, f"system calls in {lists}: {sorted(named)}"
    assert named - calls_allowed(unit) == set(), "the program's own filter lets them pass, and the unit's does not"


@pytest.mark.parametrize("unit", (DATAPLANE, CONTROLD))
def test_a_unit_starts_before_the_network(unit):
    said = settings(unit)
    assert "network-pre.target" in " ".join(said["Before"]) and "network-pre.target" in " ".join(said["Wants"]), "before the network"
    assert "shutdown.target" in said["Conflicts"], "it stops at shutdown"


def reserve(folder, free=100, **environment):
    """(pages of the machine and of its nodes, output) of weir-hugepages.service's program, on a tree that stands for /sys."""
    shutil.rmtree(folder)
    pages_of = [os.path.join(place, "hugepages/hugepages-2048kB/nr_hugepages") for place in NODES]
    for path in pages_of:
        write(folder, path, f"{free}\n")
    write(folder, "proc/meminfo", "MemTotal:       16777216 kB\nMemFree: 1 kB\n")
    done = subprocess.run([os.path.join(UNITS, "reserve-huge-pages")], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          env={"PATH": os.environ["PATH"], "HUGE_PAGES_ROOT": folder, **environment})
    assert done.returncode == 0, f"it never fails: {done.stdout}"
    return [int(read(os.path.join(folder, path))) for path in pages_of], done.stdout


def test_huge_pages_are_reserved(folder):
    assert reserve(folder, HUGE_PAGES_2M="576")[0] == [576, 100, 100], "pages of the machine"
    assert reserve(folder, HUGE_PAGES_2M_NODE1="300", HUGE_PAGES_2M="9999")[0] == [100, 100, 300], "pages of a node come first"
    assert reserve(folder, HUGE_PAGES_2M="50")[0] == [100, 100, 100], "it gives no pages back"
    assert reserve(folder)[0] == [100, 100, 100], "no setting"


def test_huge_pages_take_a_share_of_the_memory_at_most(folder):
    pages, said = reserve(folder, HUGE_PAGES_2M="100000")
    assert pages[0] == 2048, "a quarter of the memory"
    assert "25 percent" in said and "2048 instead" in said, said
    assert reserve(folder, HUGE_PAGES_2M="100000", HUGE_PAGES_SHARE="50")[0][0] == 4096, "half of the memory"


def test_wrong_settings_of_huge_pages_are_named(folder):
    for wrong in ("many", "-1", "1;reboot"):
        pages, said = reserve(folder, HUGE_PAGES_2M=wrong)
        assert pages[0] == 100, f"{wrong} pages"
        assert f"`{wrong}`" in said, f"{wrong}: {said}"
    assert "no such pages" in reserve(folder, HUGE_PAGES_1G="1")[1], "a size that the machine does not have"


def mount_private_places(folder):
    """/run, /var/lib and /etc of this test's own."""
    shutil.copytree("/etc", os.path.join(folder, "etc"), symlinks=True)
    shell("mount", "--bind", os.path.join(folder, "etc"), "/etc")
    for place in ("/run", "/var/lib"):
        shell("mount", "-t", "tmpfs", "-o", "mode=0755", "tmpfs", place)


def packaged_policy(*more):
    """The policy that the package brings, with the data plane's target of its comment. more: (a comment, what stands there instead)."""
    text = read(os.path.join(ROOT, "configs/packaged/weir.yaml")).decode()
    of_dataplane = "  - dataplane: /run/weir-dataplane/main/dataplane.sock"
    for commented, instead in (("targets: []", "targets:"), ("# " + of_dataplane, of_dataplane), *more):
        assert commented in text, f"the packaged policy has: {commented}"
        text = text.replace(commented, instead)
    return text


def install(folder):
    users = write(folder, "users.conf", "u alice - -\nu bob - -\nu mallory - -\nm alice weir-admin\nm bob weir\n")
    sysusers = os.path.join(ROOT, "configs/sysusers.d")
    shell("systemd-sysusers", *(os.path.join(sysusers, name) for name in sorted(os.listdir(sysusers))), users)
    shell("systemd-tmpfiles", "--create", os.path.join(ROOT, "configs/tmpfiles.d/weir-control.conf"))
    os.makedirs("/etc/weir")
    shutil.copy(os.path.join(ROOT, "configs/packaged/dataplane-main.yaml"), "/etc/weir")
    write("/etc/weir", "weir.yaml", packaged_policy())
    shutil.chown("/etc/weir/weir.yaml", "root", "weir")
    os.chmod("/etc/weir/weir.yaml", 0o640)


def mode_of(path):
    found = os.stat(path)
    return f"{stat.S_IMODE(found.st_mode):04o} {pwd.getpwuid(found.st_uid).pw_name} {grp.getgrgid(found.st_gid).gr_name}"


class Machine:
    """The services, run as their units say."""

    def __init__(self, folder):
        self.programs = copy_programs(BUILD, folder)
        self.manager = Manager(folder, self.programs)
        self.eal = {"EAL_OPTIONS": f"--lcores {eal_lcores(1)} --no-pci --no-huge -m 256 --file-prefix weir-services-{os.getpid()}",
                    "CONTROLD_OPTIONS": "--metrics 127.0.0.1:0 --seccomp kill"}
        self.started = []

    def start(self, unit, instance="", eal=None):
        self.started.append(self.manager.start(unit, instance, {**self.eal, **({"EAL_OPTIONS": eal} if eal else {})}, WATCHDOG_US))
        return self.started[-1]

    def ask(self, user, *arguments):
        """(exit code, output) of controlctl, run by a user who names no socket."""
        done = subprocess.run(["setpriv", f"--reuid={user}", f"--regid={user}", "--init-groups", self.programs["controlctl"], *arguments],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120, cwd="/",
                              env={"PATH": os.environ["PATH"], "HOME": "/"})
        return done.returncode, done.stdout

    def switch_bypass(self, user):
        for state in ("on", "off"):
            code, said = self.ask(user, "bypass", state)
            assert code == 0, f"{user} orders bypass {state}: {said}"

    def status(self):
        return json.loads(self.ask("root", "status", "--json")[1])


@pytest.fixture
def machine(folder):
    os.chmod(folder, 0o711)
    mount_private_places(folder)
    install(folder)
    one = Machine(folder)
    yield one
    for service in one.started:
        service.end(kill=True)


def check_before_start(machine):
    done = machine.manager.run(DATAPLANE, "ExecStartPre", "main", machine.eal)
    assert done.returncode == 0, f"the check before the start: {done.stdout}"
    bad = {"EAL_OPTIONS": "-l 99999"}
    assert machine.manager.run(DATAPLANE, "ExecStartPre", "main", bad).returncode == 2, "the check of wrong EAL options"


def check_starts(machine):
    """(data plane, controld), which enforces the packaged policy."""
    dataplane = machine.start(DATAPLANE, "main")
    assert "STATUS=no policy yet: everything passes" in dataplane.hear("READY=1", SOON), f"the data plane is ready: {dataplane.log()}"
    assert "user weir-dataplane, capabilities: none" in dataplane.log(), f"user and capabilities: {dataplane.log()}"
    assert "only root can become" not in dataplane.log(), "setpriv has made it weir-dataplane before"
    controld = machine.start(CONTROLD)
    assert controld.hear("READY=1", SOON), f"controld is ready: {controld.log()}"
    assert controld.hear("WATCHDOG=1", SOON), "controld feeds the watchdog"
    assert "capabilities: none" in controld.log(), f"without XDP it keeps none: {controld.log()}"
    assert dataplane.hear("STATUS=enforcing generation", SOON), f"the data plane enforces: {controld.log()}"
    assert [target["connected"] for target in machine.status()["targets"]] == [True], "targets that answer"
    return dataplane, controld


def check_modes():
    for path, expected in {"/run/weir": "0755 weir weir", "/var/lib/weir": "0700 weir weir", "/run/weir/controld.sock": "0666 weir weir",
                           "/run/weir/controld.sock.bypass": "0660 weir weir-admin", "/run/weir/controld.sock.place": "0600 weir weir",
                           "/run/weir-dataplane": "0755 root root", "/run/weir-dataplane/main": "0750 weir-dataplane weir-dataplane",
                           "/var/lib/weir-dataplane/main": "0700 weir-dataplane weir-dataplane"}.items():
        assert mode_of(path) == expected, path


def check_groups(machine, controld):
    """weir-admin changes, weir reads, others are told how to become a member."""
    code, said = machine.ask("alice", "add", "203.0.113.7")
    assert code == 0, f"an admin adds: {said}"
    alice = pwd.getpwnam("alice").pw_uid
    until("the log to name the user", lambda: re.search(rf'asked for command="?add.* user={alice}\b', controld.log()), SOON)
    machine.switch_bypass("alice")
    for command in ("status", "list", "stats", "explain 203.0.113.7"):
        assert machine.ask("bob", *command.split())[0] == 0, f"a reader asks for {command}"
    for command in ("add 203.0.113.8", "reload"):
        code, said = machine.ask("bob", *command.split())
        assert code == 1, f"a reader asks for {command}: {said}"
        assert "weir-admin" in said, f"the answer names the group: {said}"
    for user, command in (("bob", "bypass on"), ("mallory", "status"), ("mallory", "reload"), ("mallory", "bypass on"),
                          ("weir-dataplane", "status")):
        code, said = machine.ask(user, *command.split())
        assert code == 4, f"{user} asks for {command}: {said}"
        assert "group weir (to look) or weir-admin (to change)" in said, f"the answer names the groups: {said}"
    assert not machine.status()["bypass"], "bypass is off all along"


def check_reload(machine):
    """The exit code of `systemctl reload` is the outcome."""
    good = read("/etc/weir/weir.yaml").decode()
    before = machine.status()["generation"]["number"]
    assert machine.manager.run(CONTROLD, "ExecReload").returncode == 0, "a reload"
    write("/etc/weir", "weir.yaml", good + "  - name: 7 7\n")
    done = machine.manager.run(CONTROLD, "ExecReload")
    assert done.returncode == 1, f"a reload of a bad policy: {done.stdout}"
    assert "/etc/weir/weir.yaml:" in done.stdout, f"it names the place: {done.stdout}"
    assert machine.status()["generation"]["number"] >= before, "the generation stays"
    write("/etc/weir", "weir.yaml", good)
    assert machine.manager.run(CONTROLD, "ExecReload").returncode == 0, "a reload of the good policy"


def check_watchdog(dataplane):
    """The data plane feeds it as long as its worker goes on."""
    pid = dataplane.process.pid
    heartbeat = next(task for task, name in threads(dataplane.process).items() if name == "weir-heartbeat")

    def turns():
        return int(re.search(r"voluntary_ctxt_switches:\s+(\d+)", read(f"/proc/{pid}/task/{heartbeat}/status").decode())[1])

    assert dataplane.hear("WATCHDOG=1", SOON), "the data plane feeds the watchdog"
    with held(pid) as worker:  # the first thread is worker 0
        until("the log to name the worker", lambda: re.search('standing still.*who="?worker 0', dataplane.log()), SOON)
        dataplane.forget()
        before = turns()
        until("the heartbeat to look again", lambda: turns() >= before + TURNS, SOON)
        assert not dataplane.hear("WATCHDOG=1", 0), "nobody feeds the watchdog while a worker stands still"
        worker.reap()
    assert dataplane.hear("WATCHDOG=1", SOON), "the data plane feeds it when the worker goes on"


def fill(service):
    """The socket on which it tells systemd takes no more messages."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.setblocking(False)
        with pytest.raises(BlockingIOError):
            while True:
                sender.sendto(b"WATCHDOG=1", service.notify)


def check_without_controld(machine, dataplane, controld):
    """Only root switches the bypass, and the data plane stops. It starts with its last good; so does controld with a bad policy."""
    controld.end(kill=True)
    code, said = machine.ask("alice", "bypass", "on")
    assert code == 4, f"an admin without controld: {said}"
    assert "sudo controlctl bypass on" in said, f"the answer names root's command: {said}"
    assert machine.ask("alice", "status")[0] == 4, "an admin asks for status without controld"
    fill(dataplane)
    machine.switch_bypass("root")
    assert dataplane.end() == 0, "the data plane stops though its service manager does not read"

    dataplane = machine.start(DATAPLANE, "main")
    assert "STATUS=enforcing generation" in dataplane.hear("READY=1", SOON), f"it enforces its last good: {dataplane.log()}"
    with open("/etc/weir/weir.yaml", "a", encoding="utf-8") as file:
        file.write("  - name: 7 7\n")
    controld = machine.start(CONTROLD)
    assert controld.hear("READY=1", SOON), f"controld starts with a bad policy: {controld.log()}"
    until("the last good to be enforced", lambda: machine.status()["from_last_good"], SOON)
    assert "drop" in machine.ask("bob", "explain", "203.0.113.7")[1], "the blocked address stays blocked"
    return dataplane, controld


def check_xdp(machine, controld):
    """controld attaches to interfaces before it is ready, and to others when they come. Both stay when it is killed."""
    assert controld.end() == 0, "controld stops"
    mount = settings("run-weir-bpf.mount")
    os.makedirs(mount["Where"][0])
    shell("mount", "-t", mount["Type"][0], "-o", mount["Options"][0], mount["What"][0], mount["Where"][0])
    before = settings(CONTROLD)["ExecStartPre"][0]
    assert before.startswith("+-"), f"as root, and it may fail: {before}"
    shell(*before.removeprefix("+-").split())
    shell("ip", "link", "add", "card0", "type", "veth", "peer", "name", "peer0")
    write("/etc/weir", "weir.yaml",
          packaged_policy(("#   - xdp: {interfaces: [eth0], attach: auto}", "  - xdp: {interfaces: [card0, card1], attach: auto}")))

    def attached(name):
        return "prog/xdp" in shell("ip", "-details", "link", "show", name)

    controld = machine.start(CONTROLD)
    assert controld.hear("READY=1", SOON), f"controld is ready: {controld.log()}"
    assert "capabilities: net_admin, perfmon, bpf," in controld.log(), f"the capabilities that XDP needs: {controld.log()}"
    until("XDP on the interface that is there", lambda: attached("card0"), SOON)
    shell("ip", "link", "add", "card1", "type", "veth", "peer", "name", "peer1")
    until("XDP on the interface that came", lambda: attached("card1"), SOON)
    controld.end(kill=True)
    assert attached("card0"), "it stays when controld is killed"
    machine.switch_bypass("root")
    controld = machine.start(CONTROLD)
    assert controld.hear("READY=1", SOON), f"controld is ready again: {controld.log()}"
    assert attached("card0") and attached("card1"), "both are attached when controld is ready"
    return controld


def check_stops(dataplane, controld):
    for service in (controld, dataplane):
        service.forget()
        assert service.end() == 0, f"exit code of a stop: {service.log()[-600:]}"
        assert service.hear("STOPPING=1", SOON), f"it tells that it stops: {service.log()[-3000:]}"
    assert "all returned" in dataplane.log(), f"the data plane gives back all buffers: {dataplane.log()[-600:]}"


@needs_root("users, groups and mounts of the test's own need it")
@needs_programs("systemd-sysusers", "systemd-tmpfiles", "setpriv", "ip")
@pytest.mark.timeout(300)
def test_the_programs_run_as_their_units_say(machine):
    check_before_start(machine)
    dataplane, controld = check_starts(machine)
    check_modes()
    check_groups(machine, controld)
    check_reload(machine)
    check_watchdog(dataplane)
    dataplane, controld = check_without_controld(machine, dataplane, controld)
    controld = check_xdp(machine, controld)
    check_stops(dataplane, controld)


@needs_root("users, groups and mounts of the test's own need it")
@needs_programs("systemd-sysusers", "systemd-tmpfiles", "setpriv")
@pytest.mark.skipif(not os.path.isdir("/sys/bus/pci/devices") or not os.listdir("/sys/bus/pci/devices"), reason="kernel: no PCI devices")
def test_a_card_without_a_driver_ends_the_data_plane(machine):
    card = min(os.listdir("/sys/bus/pci/devices"))  # a bridge; and root alone could open it
    service = machine.start(DATAPLANE, "main", eal=machine.eal["EAL_OPTIONS"].replace("--no-pci", f"-a {card}"))
    assert service.process.wait(SOON) != 0, f"exit code: {service.log()}"
    assert "drives none of the cards that -a names" in service.log(), service.log()
    assert not service.hear("READY=1", 0), "it was never ready"
