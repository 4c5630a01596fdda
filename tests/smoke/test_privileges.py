"""Privileges of the programs after their start.

The data plane has no capability that its ports do not need, no way to gain one, the user of its settings and a filter of system calls
that ends it, in every thread. So it reloads, persists, bypasses, counts, sees links go and peers return, and stops, on every virtual
port. controld answers a group that may read."""

import errno
import grp
import os
import pwd
import re
import shutil
import socket
import stat
import subprocess
import sys
import traceback

import pytest

from weir_smoke import Memory, controlctl, make_samples, needs_root, order_bypass, read, write
from host_rig import RUNNING, in_namespace, missing, run
from namespaces import bind


def has_seccomp():
    return b"Seccomp:" in read("/proc/self/status")


pytestmark = needs_root("changes of the user need it")
needs_seccomp = pytest.mark.skipif(not has_seccomp(), reason="kernel: no seccomp")

CAP_NET_ADMIN, CAP_NET_RAW = 1 << 12, 1 << 13
NAMESPACE = "weir-privileges"
FRAME = bytes.fromhex("020000000001020000000002") + b"\x08\x00" + bytes(50)
PORTS = ("net_af_packet0,iface=card0,framecnt=1024", "net_tap0,iface=host0", "net_pcap0,rx_pcap=capture.pcap,tx_pcap=out.pcap",
         "net_ring0", "net_memif0,role=server,socket={folder}/ports/memif.sock,socket-abstract=no",
         "net_vhost0,iface={folder}/ports/vhost.sock")
# Peers of the last two, ports of another data plane that sends all it can.
PEERS = ("net_memif0,role=client,socket={folder}/ports/memif.sock,socket-abstract=no",
         "net_virtio_user0,path={folder}/ports/vhost.sock,queue_size=256")


@pytest.fixture
def card():
    """card0 and peer0, the ends of a wire in a network of their own."""
    if reason := missing():
        pytest.skip(reason)
    run("ip", "netns", "add", NAMESPACE)
    run("ip", "-n", NAMESPACE, "link", "add", "card0", "type", "veth", "peer", "name", "peer0")
    for interface in ("card0", "peer0"):
        run("ip", "-n", NAMESPACE, "link", "set", interface, "up")
    yield
    run("ip", "netns", "del", NAMESPACE)


@pytest.fixture
def open_session(session):
    """Every user may enter its folder."""
    os.chmod(session.folder, 0o711)
    return session


def start(session, name, config, ports=(), options=(), inside=(), socket_path="run/dataplane.sock"):
    write(session.folder, name + ".yaml", config)
    memory = Memory(8192, 2048)
    command = [*inside, os.path.join(session.build, "dataplane/dataplane"), "-l", "0", "--no-pci", *options,
               *memory.eal_options(name + os.path.basename(session.folder))]
    for port in ports:
        command += ["--vdev", port.format(folder=session.folder)]
    command += ["--", "--config", session.path(name + ".yaml"), "--socket", session.path(socket_path),
                "--state-dir", session.path("state/" + name)]
    return session._start(name, command)


def start_judge(session, user):
    """The data plane under test. It has EAL's telemetry, so that its threads are looked at, too."""
    if not os.path.islink(session.path("dataplane.sock")):
        os.symlink(session.path("run/dataplane.sock"), session.path("dataplane.sock"))  # where controld looks
    before = session.log("dataplane").count(RUNNING) if os.path.exists(session.path("dataplane.log")) else 0
    session.dataplane = start(session, "dataplane", f"forward: pair\nprivileges: {{user: {user}, seccomp: kill}}\n"
                              "mempool: {mbufs: 16384}\n", PORTS, inside=("nsenter", f"--net=/run/netns/{NAMESPACE}"))
    session.wait("the ports", lambda: session.log("dataplane").count(RUNNING) > before)


def status_of_threads(pid):
    """{name of the thread and its number: {field of /proc/PID/task/TID/status: text}}"""
    threads = {}
    for number in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{number}/status", encoding="ascii") as file:
            fields = dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)
        threads[fields["Name"] + " " + number] = fields
    return threads


def realtime_threads(pid):
    """Names of the threads with a real-time policy."""
    names = []
    for number in os.listdir(f"/proc/{pid}/task"):
        if os.sched_getscheduler(int(number)) == os.SCHED_RR:
            with open(f"/proc/{pid}/task/{number}/comm", encoding="ascii") as file:
                names.append(file.read().strip())
    return names


def may_be_realtime():
    """Not even root in some containers."""
    return subprocess.run([sys.executable, "-c", "import os; os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))"],
                          stderr=subprocess.DEVNULL, check=False).returncode == 0


def check_realtime(session, what):
    """One thread of the data plane carries out orders; of controld one does, and one detaches XDP."""
    may = may_be_realtime()
    for name, wanted in (("dataplane", ["weir-panic"]), ("controld", ["controld"] * 2)):
        assert realtime_threads(getattr(session, name).pid) == (wanted if may else []), f"{what}: real-time threads of {name}"
        said = "the panic switch has no real-time thread" in session.log(name)
        assert said == (not may), f"{what}: the log of {name} says that it has none"


def check_threads(pid, user, capabilities, what, seccomp="2", at_least=4):
    account = pwd.getpwnam(user)
    expected = {"Uid": "\t".join([str(account.pw_uid)] * 4), "Gid": "\t".join([str(account.pw_gid)] * 4),
                "CapInh": 0, "CapPrm": capabilities, "CapEff": capabilities, "CapBnd": 0, "CapAmb": 0,
                "NoNewPrivs": "1", "Seccomp": seccomp}
    threads = status_of_threads(pid)
    assert len(threads) >= at_least, f"{what}: threads of EAL and of our own: {list(threads)}"
    for name, fields in threads.items():
        for key, value in expected.items():
            found = int(fields[key], 16) if key.startswith("Cap") else fields[key]
            assert found == value, f"{what}: thread {name}: {key}"
    return threads


def grows(session, what, by=1):
    before = session.stats()["packets"]
    session.wait(what, lambda: session.stats()["packets"] >= before + by)


def send_frames(session, what):
    sender = in_namespace(NAMESPACE, lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW))
    with sender:
        sender.bind(("peer0", 0))
        before = session.stats()["packets"]

        def arrived():
            sender.send(FRAME)
            return session.stats()["packets"] > before

        session.wait(what, arrived)


def peers_come_and_go(session, what):
    for port in PEERS:
        for turn in ("comes", "comes again after a crash"):
            peer = start(session, "peer", "forward: pair\nprivileges: {user: root}\n", ("net_null0", port),
                         ("--single-file-segments", "--no-telemetry"), socket_path="peer.sock")
            try:
                grows(session, f"{what}: {port.split(',')[0]} {turn}", 10000)
            finally:
                peer.kill()
                peer.wait()


def flap(session, what):
    for state in ("down", "up"):
        run("ip", "-n", NAMESPACE, "link", "set", "card0", state)
        controlctl(session, "stats")
    send_frames(session, f"{what}: frames after the link was down")


def check_works(session, user, what):
    send_frames(session, f"{what}: frames from the card")
    saved = session.path("state/dataplane/snapshot.weir")
    policies = [read(session.path(name + ".yaml")).decode() for name in ("weir-second", "weir")]
    for policy in (*policies, *policies):
        write(session.folder, "weir.yaml", policy)
        assert controlctl(session, "reload")["ok"], f"{what}: a reload"
        assert os.stat(saved).st_uid == pwd.getpwnam(user).pw_uid, f"{what}: owner of the saved snapshot"
    for state in ("on", "off"):
        order_bypass(session, state, what)
    flap(session, what)
    peers_come_and_go(session, what)


def as_user(user, function):
    """The small number that function() returns in a process of that user; 255: it failed."""
    child = os.fork()
    if child == 0:
        result = 255
        try:
            account = pwd.getpwnam(user)
            os.setgroups([])
            os.setgid(account.pw_gid)
            os.setuid(account.pw_uid)
            result = function()
        except BaseException:  # pylint: disable=broad-exception-caught
            traceback.print_exc()
        finally:
            os._exit(result)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def check_plants_nothing(session, user, what):
    """The user of the data plane cannot put a socket in the place of controld's."""
    folder = session.path("run")
    status = os.stat(folder)
    assert (status.st_uid, stat.S_IMODE(status.st_mode)) == (0, 0o755), f"{what}: owner and mode of the sockets' folder"
    if user == "root":
        return

    def bind():
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as planted:
            planted.bind(os.path.join(folder, "controld.sock"))

    tries = {"bind": bind, "unlink": lambda: os.unlink(os.path.join(folder, "dataplane.sock")),
             "link": lambda: os.symlink("/etc/passwd", os.path.join(folder, "dataplane.sock.bypass")),
             "folder": lambda: os.mkdir(os.path.join(folder, "controld.sock"))}

    def count_successes():
        done = 0
        for attempt in tries.values():
            try:
                attempt()
                done += 1
            except OSError:
                pass
        return done

    before = sorted(os.listdir(folder))
    assert as_user(user, count_successes) == 0, f"{what}: successes of {list(tries)} in the sockets' folder"
    assert sorted(os.listdir(folder)) == before, f"{what}: the files of the sockets' folder"


@needs_seccomp
@pytest.mark.timeout(300)
@pytest.mark.parametrize("user", ("root", "nobody"))
def test_the_data_plane_works_without_capabilities(card, open_session, user):
    session, what = open_session, f"user {user}"
    make_samples(session.folder, flows=100, frames=500)
    os.mkdir(session.path("ports"))  # drivers make their sockets before the user changes, and remove them after
    os.chown(session.path("ports"), pwd.getpwnam(user).pw_uid, -1)
    start_judge(session, user)
    session.start_controld(session.path("weir.yaml"))
    session.wait_enforced()
    check_threads(session.dataplane.pid, user, 0, what)
    check_threads(session.controld.pid, "root", 0, f"{what}: controld", at_least=2)
    check_realtime(session, what)
    check_works(session, user, what)
    check_plants_nothing(session, user, what)
    check_threads(session.dataplane.pid, user, 0, what + ", after all that")
    check_realtime(session, what + ", after all that")
    assert session.stop("dataplane") == 0, f"exit code\n{session.log('dataplane')[-1500:]}"
    assert "all returned" in session.log("dataplane"), "every mbuf is back"
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as left:
        # Only a user who may write the folder can remove the socket.
        assert left.connect_ex(session.path("run/dataplane.sock")) == (errno.ENOENT if user == "root" else errno.ECONNREFUSED)
    start_judge(session, user)  # once more, with the files of the first
    assert "enforcing the saved generation" in session.log("dataplane"), "it enforces the saved snapshot"
    assert session.stop("dataplane") == 0, f"exit code of the second run\n{session.log('dataplane')[-1500:]}"


@needs_seccomp
@pytest.mark.parametrize("settings, user, capabilities, seccomp", (
    ("user: root, keep: [net_admin, net_raw]", "root", CAP_NET_ADMIN | CAP_NET_RAW, "2"),
    ("user: nobody, keep: [net_raw]", "nobody", CAP_NET_RAW, "2"),
    ("user: root, seccomp: off", "root", 0, "0")), ids=("root", "nobody", "seccomp off"))
def test_settings_keep_capabilities_and_turn_seccomp_off(open_session, settings, user, capabilities, seccomp):
    session = open_session
    session.dataplane = start(session, "dataplane", f"privileges: {{{settings}}}\n")
    session.wait("the ports", lambda: RUNNING in session.log("dataplane"))
    check_threads(session.dataplane.pid, user, capabilities, settings, seccomp)
    assert session.stop("dataplane") == 0, "exit code"


def test_a_state_folder_with_foreign_files_keeps_its_owner(open_session):
    session = open_session
    os.makedirs(session.path("state/dataplane"), 0o700)
    write(session.folder, "state/dataplane/passwords", "")
    process = start(session, "dataplane", "privileges: {user: nobody}\n")
    assert process.wait(120) == 1, "exit code"
    log = session.log("dataplane")
    assert "user nobody" in log and "chown" in log, log[-600:]
    folder = os.stat(session.path("state/dataplane"))
    assert (folder.st_uid, stat.S_IMODE(folder.st_mode)) == (0, 0o700), "owner and mode of the folder"


def test_root_without_a_user_to_become_does_not_start(session):
    with open("/etc/passwd", encoding="utf-8") as file:
        others = [line for line in file if not line.startswith("weir:")]
    bind(write(session.folder, "passwd", "".join(others)), "/etc/passwd")
    process = start(session, "dataplane", "forward: sink\n")
    assert process.wait(120) == 2, "exit code"
    log = session.log("dataplane")
    for part in ("useradd --system weir", "privileges: {user: NAME}", "`user: root` stays root"):
        assert part in log, log[-600:]
    assert RUNNING not in log, "it does not run"


def test_a_group_may_read_and_changes_are_logged_with_their_user(open_session):
    session = open_session
    readers, others = grp.getgrnam("daemon").gr_gid, grp.getgrnam("mail").gr_gid
    make_samples(session.folder, flows=100, frames=500)
    tool = shutil.copy(os.path.join(session.build, "control/controlctl"), session.folder)
    session.start_controld(session.path("weir.yaml"), extra=("--read-group", "daemon"))

    def ask(*arguments, groups=(), user="nobody"):
        return subprocess.run([tool, *arguments, "--socket", session.path("controld.sock")], user=user, group=others,
                              extra_groups=groups, capture_output=True, text=True, timeout=60, cwd="/")

    for command in ("status", "list", "shapes", "explain 203.0.113.7"):
        done = ask(*command.split(), groups=[readers])
        assert done.returncode == (6 if command == "status" else 0), f"a reader asks for {command}: {done.stderr}"  # no target is there
    for command in ("reload", "detach"):
        done = ask(*command.split(), groups=[readers])
        assert done.returncode == 1, f"a reader asks for {command}: {done.stderr}"
        assert "may look, and not change anything" in done.stderr, done.stderr
    for command, groups in (("bypass on", [readers]), ("status", []), ("reload", [])):
        assert ask(*command.split(), groups=groups).returncode == 4, f"{command} in groups {groups}"
    assert ask("status", user="root").returncode == 6, "root asks"
    assert not session.call("status")["bypass"], "bypass is still off"
    for change in ("bypass on", "bypass off", "detach"):
        session.controlctl(*change.split())
        session.wait(f"the log to name the user of {change}", lambda wanted=change: re.search(
            rf'asked for command="?{wanted}"? user=0 process=\d+', session.log("controld")))
    assert "user=65534" not in session.log("controld"), "a refused request is not logged as done"
