"""The units of configs/systemd: systemd-analyze finds no fault, users and folders are made by their own files, the
programs start as the units say, as users of their own, and tell systemd when they are ready, and for its watchdog that they go on.
Members of weir-admin change what is enforced, members of weir look, others are told how to become one. Without
controld the last good enforces, and what it takes to switch it off is said. Huge pages."""

import contextlib
import json
import os
import re
import shutil
import stat
import subprocess
import time

from weir_smoke import BUILD, ROOT, check, equal, read, skip, temporary_folder
from held_threads import held
from namespaces import own_mounts, own_network
from session import eal_lcores
from units import SERVICES, UNITS, Manager, calls_allowed, calls_named, copy_programs, exposure, installed, settings
from until import until

SOON = 60          # seconds for what must come, on a machine that does much else
MOST = {"weir-controld.service": 2.0, "weir-crowdsec.service": 1.5, "weir-dataplane@.service": 1.5, "weir-flowspec@.service": 1.5, "weir-hugepages.service": 1.5}
WATCHDOG_US = 1_000_000
DATAPLANE, CONTROLD = "weir-dataplane@.service", "weir-controld.service"


def shell(*command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    check(done.returncode == 0, f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}")
    return done.stdout


def test_units():
    with temporary_folder() as folder:
        programs = {name: os.path.join(BUILD, place, name)
                    for name, place in (("dataplane", "dataplane"), ("controld", "control"), ("controlctl", "control"))}
        installed(folder, programs)
        done = subprocess.run(["systemd-analyze", "verify", "--man=no", *(os.path.join(folder, name) for name in os.listdir(folder))],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              env={**os.environ, "SYSTEMD_UNIT_PATH": folder + ":"})
        lines = [line for line in done.stdout.splitlines() if "weir" in line]
        equal((done.returncode, lines), (0, []), f"systemd-analyze verify: {done.stdout}")
    for unit in SERVICES:
        found, said = exposure(unit)
        check(found <= MOST[unit], f"{unit}: exposure {found}, at most {MOST[unit]}")
        equal(said, "", f"what systemd-analyze says of {unit}")
    everybodys = "common/confine/system_calls.cpp"
    for unit, lists in ((DATAPLANE, ("dataplane/start/syscall_filter.cpp",)), (CONTROLD, ("control/daemon/rights.cpp", "control/fetch/transfer.cpp"))):
        named = calls_named(everybodys, *lists)
        check(len(named) > 100, f"lists of system calls in {lists}: {sorted(named)}")
        equal(named - calls_allowed(unit), set(), f"system calls that the program's own filter lets pass, and {unit} does not")
    for unit in (DATAPLANE, CONTROLD):
        said = settings(unit)
        check("network-pre.target" in " ".join(said["Before"]) and "network-pre.target" in " ".join(said["Wants"]),
              f"{unit} comes before the network")
        check("shutdown.target" in said["Conflicts"], f"{unit} stops at the end")


def test_huge_pages():
    """The program of weir-hugepages.service on a tree that stands for /sys."""
    with temporary_folder() as folder:
        def reserve(free=100, **environment):
            shutil.rmtree(folder)
            for place in ("sys/kernel/mm/hugepages/hugepages-2048kB", *(f"sys/devices/system/node/node{n}/hugepages/hugepages-2048kB" for n in (0, 1))):
                os.makedirs(os.path.join(folder, place))
                with open(os.path.join(folder, place, "nr_hugepages"), "w", encoding="ascii") as file:
                    file.write(f"{free}\n")
            os.mkdir(os.path.join(folder, "proc"))
            with open(os.path.join(folder, "proc/meminfo"), "w", encoding="ascii") as file:
                file.write("MemTotal:       16777216 kB\nMemFree: 1 kB\n")
            done = subprocess.run([os.path.join(UNITS, "reserve-huge-pages")], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                  env={"PATH": os.environ["PATH"], "HUGE_PAGES_ROOT": folder, **environment})
            equal(done.returncode, 0, f"it never fails: {done.stdout}")
            pages = [int(read(os.path.join(folder, place, "hugepages/hugepages-2048kB/nr_hugepages"))) for place in
                     ("sys/kernel/mm", "sys/devices/system/node/node0", "sys/devices/system/node/node1")]
            return pages, done.stdout

        equal(reserve(HUGE_PAGES_2M="576")[0], [576, 100, 100], "pages of the machine")
        equal(reserve(HUGE_PAGES_2M="50")[0], [100, 100, 100], "those that are there are not given back")
        pages, said = reserve(HUGE_PAGES_2M="100000")
        equal(pages[0], 2048, "a quarter of the memory")
        check("25 percent" in said and "2048 instead" in said, f"that is said: {said}")
        equal(reserve(HUGE_PAGES_2M="100000", HUGE_PAGES_SHARE="50")[0][0], 4096, "half of it")
        equal(reserve(HUGE_PAGES_2M_NODE1="300", HUGE_PAGES_2M="9999")[0], [100, 100, 300], "pages of a node, instead")
        equal(reserve()[0], [100, 100, 100], "nothing asked for")
        for wrong in ("many", "-1", "1;reboot"):
            pages, said = reserve(HUGE_PAGES_2M=wrong)
            equal(pages[0], 100, f"{wrong} pages")
            check(f"`{wrong}`" in said, f"{wrong} is said: {said}")
        check("no such pages" in reserve(HUGE_PAGES_1G="1")[1], "a size that the machine does not have")


def private_places(folder):
    """/run, /var/lib and /etc of this test's own."""
    shutil.copytree("/etc", os.path.join(folder, "etc"), symlinks=True)
    shell("mount", "--bind", os.path.join(folder, "etc"), "/etc")
    for place in ("/run", "/var/lib"):
        shell("mount", "-t", "tmpfs", "-o", "mode=0755", "tmpfs", place)


def install(folder):
    users = os.path.join(folder, "users.conf")
    with open(users, "w", encoding="ascii") as file:
        file.write("u alice - -\nu bob - -\nu mallory - -\nm alice weir-admin\nm bob weir\n")
    shell("systemd-sysusers", *(os.path.join(ROOT, "configs/sysusers.d", name) for name in sorted(os.listdir(os.path.join(ROOT, "configs/sysusers.d")))), users)
    shell("systemd-tmpfiles", "--create", os.path.join(ROOT, "configs/tmpfiles.d/weir-control.conf"))
    os.makedirs("/etc/weir")
    for name in ("weir.yaml", "dataplane-main.yaml"):
        shutil.copy(os.path.join(ROOT, "configs/packaged", name), "/etc/weir")
    shutil.chown("/etc/weir/weir.yaml", "root", "weir")
    os.chmod("/etc/weir/weir.yaml", 0o640)


def mode_of(path):
    import grp
    import pwd
    found = os.stat(path)
    return f"{stat.S_IMODE(found.st_mode):04o} {pwd.getpwuid(found.st_uid).pw_name} {grp.getgrgid(found.st_gid).gr_name}"


class Machine:
    def __init__(self, folder):
        self.programs = copy_programs(BUILD, folder)
        self.manager = Manager(folder, self.programs)
        self.eal = {"EAL_OPTIONS": f"--lcores {eal_lcores(1)} --no-pci --no-huge -m 256 --file-prefix weir-services-{os.getpid()}",
                    "CONTROLD_OPTIONS": "--metrics 127.0.0.1:0 --seccomp kill"}

    def start(self, unit, instance="", watchdog_us=WATCHDOG_US, eal=None):
        return self.manager.start(unit, instance, {**self.eal, **({"EAL_OPTIONS": eal} if eal else {})}, watchdog_us)

    def ask(self, user, *arguments):
        """(exit code, all that is said) of controlctl, run by a user who names no socket."""
        done = subprocess.run(["setpriv", f"--reuid={user}", f"--regid={user}", "--init-groups", self.programs["controlctl"], *arguments],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120, cwd="/", env={"PATH": os.environ["PATH"], "HOME": "/"})
        return done.returncode, done.stdout

    def until(self, what, works):
        until(what, works, SOON)

    def status(self):
        return json.loads(self.ask("root", "status", "--json")[1])


def run_machine(machine):
    done = machine.manager.run(DATAPLANE, "ExecStartPre", "main", machine.eal)
    equal(done.returncode, 0, f"the check before the start: {done.stdout}")
    bad = {"EAL_OPTIONS": "-l 99999"}
    equal(machine.manager.run(DATAPLANE, "ExecStartPre", "main", bad).returncode, 2, "the check of wrong EAL options")

    cards = sorted(os.listdir("/sys/bus/pci/devices")) if os.path.isdir("/sys/bus/pci/devices") else []
    for card in cards[:1]:  # a bridge; and root alone could open it
        nobodys = machine.start(DATAPLANE, "main", eal=machine.eal["EAL_OPTIONS"].replace("--no-pci", f"-a {card}"))
        check(nobodys.process.wait(SOON) != 0, f"a card that nobody drives: {nobodys.log()}")
        check("drives none of the cards that -a names" in nobodys.log(), f"that is said: {nobodys.log()}")
        check(not nobodys.hear("READY=1", 0), "it was never ready")

    dataplane = machine.start(DATAPLANE, "main")
    check("STATUS=no policy yet: everything passes" in dataplane.hear("READY=1", SOON), f"the data plane is ready: {dataplane.log()}")
    check("user weir-dataplane, capabilities: none" in dataplane.log(), f"what it runs as: {dataplane.log()}")
    check("only root can become" not in dataplane.log(), "it is whom it should be")
    controld = machine.start(CONTROLD)
    check(controld.hear("READY=1", SOON), f"controld is ready: {controld.log()}")
    check(controld.hear("WATCHDOG=1", SOON), "controld feeds the watchdog")
    check("capabilities: none" in controld.log(), f"without XDP it keeps none: {controld.log()}")
    check(dataplane.hear("STATUS=enforcing generation", SOON), f"the data plane enforces: {controld.log()}")
    equal([target["connected"] for target in machine.status()["targets"]], [True], "targets that answer")

    for path, expected in {"/run/weir": "0755 weir weir", "/var/lib/weir": "0700 weir weir", "/run/weir/controld.sock": "0666 weir weir",
                           "/run/weir/controld.sock.bypass": "0660 weir weir-admin", "/run/weir/controld.sock.place": "0600 weir weir",
                           "/run/weir-dataplane": "0755 root root", "/run/weir-dataplane/main": "0750 weir-dataplane weir-dataplane",
                           "/var/lib/weir-dataplane/main": "0700 weir-dataplane weir-dataplane"}.items():
        equal(mode_of(path), expected, path)
    who_may_ask(machine, controld)
    reloads(machine)
    watchdog(dataplane)
    dataplane, controld = without_controld(machine, dataplane, controld)
    controld = xdp(machine, controld)
    for service in (controld, dataplane):
        service.forget()
        equal(service.end(), 0, f"a stop: {service.log()[-600:]}")
        check(service.hear("STOPPING=1", SOON), f"that it stops is said: {service.log()[-3000:]}")
    check("all returned" in dataplane.log(), f"the data plane gives back all buffers: {dataplane.log()[-600:]}")


def who_may_ask(machine, controld):
    import pwd
    code, said = machine.ask("alice", "add", "203.0.113.7")
    equal(code, 0, f"an admin adds: {said}")
    alice = pwd.getpwnam("alice").pw_uid
    machine.until("who asked is logged", lambda: re.search(rf'asked for command="?add.* user={alice}\b', controld.log()))
    for state in ("on", "off"):
        code, said = machine.ask("alice", "bypass", state)
        equal(code, 0, f"an admin orders bypass {state}: {said}")
    for command in ("status", "list", "stats", "explain 203.0.113.7"):
        equal(machine.ask("bob", *command.split())[0], 0, f"who may look asks for {command}")
    for command in ("add 203.0.113.8", "reload"):
        code, said = machine.ask("bob", *command.split())
        equal(code, 1, f"who may look asks for {command}: {said}")
        check("weir-admin" in said, f"he is told how: {said}")
    for user, command in (("bob", "bypass on"), ("mallory", "status"), ("mallory", "reload"), ("mallory", "bypass on"), ("weir-dataplane", "status")):
        code, said = machine.ask(user, *command.split())
        equal(code, 4, f"{user} asks for {command}: {said}")
        check("group weir (to look) or weir-admin (to change)" in said, f"{user} is told how: {said}")
    check(not machine.status()["bypass"], "bypass is off all along")


def reloads(machine):
    """systemctl reload: its exit code is the outcome."""
    with open("/etc/weir/weir.yaml", encoding="utf-8") as file:
        good = file.read()
    before = machine.status()["generation"]["number"]
    equal(machine.manager.run(CONTROLD, "ExecReload").returncode, 0, "a reload")
    with open("/etc/weir/weir.yaml", "w", encoding="utf-8") as file:
        file.write(good + "  - name: 7 7\n")
    done = machine.manager.run(CONTROLD, "ExecReload")
    equal(done.returncode, 1, f"a reload of a bad policy: {done.stdout}")
    check("/etc/weir/weir.yaml:" in done.stdout, f"it says where: {done.stdout}")
    check(machine.status()["generation"]["number"] >= before, "what was enforced stays")
    with open("/etc/weir/weir.yaml", "w", encoding="utf-8") as file:
        file.write(good)
    equal(machine.manager.run(CONTROLD, "ExecReload").returncode, 0, "a reload of the good one")


def watchdog(dataplane):
    check(dataplane.hear("WATCHDOG=1", SOON), "the data plane feeds the watchdog")
    with held(dataplane.process.pid) as worker:  # the first thread is worker 0
        dataplane.forget()
        if dataplane.hear("WATCHDOG=1", 4):  # of a turn before
            check(not dataplane.hear("WATCHDOG=1", 4), "a worker that stands still starves it")
        check(re.search('standing still.*who="?worker 0', dataplane.log()), f"it is named: {dataplane.log()[-600:]}")
        worker.reap()
    check(dataplane.hear("WATCHDOG=1", SOON), "it is fed when the worker goes on")


def without_controld(machine, dataplane, controld):
    """The last good enforces by itself; only root may switch it off; a bad policy does not keep controld from it."""
    controld.end(kill=True)
    code, said = machine.ask("alice", "bypass", "on")
    equal(code, 4, f"an admin without controld: {said}")
    check("sudo controlctl bypass on" in said, f"he is told who may: {said}")
    equal(machine.ask("alice", "status")[0], 4, "an admin asks for status without controld")
    for state in ("on", "off"):
        code, said = machine.ask("root", "bypass", state)
        equal(code, 0, f"root without controld: {said}")
    time.sleep(2)  # nobody reads what it tells: ten messages are waiting, and one more would wait for ever
    equal(dataplane.end(), 0, "the data plane stops though its service manager does not read")

    dataplane = machine.start(DATAPLANE, "main")
    check("STATUS=enforcing generation" in dataplane.hear("READY=1", SOON), f"a data plane alone enforces what it has: {dataplane.log()}")
    with open("/etc/weir/weir.yaml", "a", encoding="utf-8") as file:
        file.write("  - name: 7 7\n")
    controld = machine.start(CONTROLD)
    check(controld.hear("READY=1", SOON), f"controld starts with a bad policy: {controld.log()}")
    machine.until("the last good is enforced", lambda: machine.status()["from_last_good"])
    check("drop" in machine.ask("bob", "explain", "203.0.113.7")[1], "what was blocked is blocked")
    return dataplane, controld


def xdp(machine, controld):
    """As user weir with the unit's capabilities: interfaces that are there are attached before it is ready, others when they
    come; what is pinned stays, and root reaches it without controld."""
    equal(controld.end(), 0, "controld stops")
    mount = settings("run-weir-bpf.mount")
    os.makedirs(mount["Where"][0])
    shell("mount", "-t", mount["Type"][0], "-o", mount["Options"][0], mount["What"][0], mount["Where"][0])
    before = next(value for value in settings(CONTROLD)["ExecStartPre"])
    check(before.startswith("+-"), f"as root, and it may fail: {before}")
    shell(*before.removeprefix("+-").split())
    shell("ip", "link", "add", "card0", "type", "veth", "peer", "name", "peer0")
    with open(os.path.join(ROOT, "configs/packaged/weir.yaml"), encoding="utf-8") as file:
        policy = file.read()
    commented = "#  - xdp: {interfaces: [eth0], attach: auto}"
    check(commented in policy, "the packaged policy has an example of XDP")
    with open("/etc/weir/weir.yaml", "w", encoding="utf-8") as file:
        file.write(policy.replace(commented, "  - xdp: {interfaces: [card0, card1], attach: auto}"))

    def attached(name):
        return "prog/xdp" in shell("ip", "-details", "link", "show", name)

    controld = machine.start(CONTROLD)
    check(controld.hear("READY=1", SOON), f"controld is ready: {controld.log()}")
    check("capabilities: net_admin, perfmon, bpf," in controld.log(), f"what XDP needs: {controld.log()}")
    machine.until("XDP on the interface that is there", lambda: attached("card0"))
    shell("ip", "link", "add", "card1", "type", "veth", "peer", "name", "peer1")
    machine.until("XDP on the one that came", lambda: attached("card1"))
    controld.end(kill=True)
    check(attached("card0"), "it stays when controld is gone")
    for state in ("on", "off"):
        code, said = machine.ask("root", "bypass", state)
        equal(code, 0, f"root without controld: {said}")
    controld = machine.start(CONTROLD)
    check(controld.hear("READY=1", SOON), f"controld is ready again: {controld.log()}")
    check(attached("card0") and attached("card1"), "both are enforced when it says so")
    return controld


if os.geteuid() != 0:
    skip("root: users, groups and mounts of the test's own need it")
for program in ("systemd-analyze", "systemd-sysusers", "systemd-tmpfiles", "setpriv", "ip"):
    if not shutil.which(program):
        skip(f"packages: no {program}: scripts/setup test")
test_units()
test_huge_pages()
own_network()
own_mounts()

with temporary_folder() as folder, contextlib.ExitStack() as stack:
    os.chmod(folder, 0o711)
    shell("ip", "link", "set", "lo", "up")
    private_places(folder)
    install(folder)
    machine = Machine(folder)
    started, start = [], Manager.start
    Manager.start = lambda *arguments: started.append(start(*arguments)) or started[-1]
    stack.callback(lambda: [service.end(kill=True) for service in started])
    run_machine(machine)
