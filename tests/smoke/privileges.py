"""After its start the data plane has no capability that its ports do not need, no way to gain one, a filter of system
calls that ends it when it makes another, and the user it was told: in every thread. With all that it reloads, persists,
bypasses, counts, sees links go and peers return, and stops cleanly, on every virtual port. Its user can put nothing into
the folder of its sockets, and without a user it does not start. controld lets a group look."""

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

from weir_smoke import BUILD, Memory, Session, check, controlctl, equal, make_samples, order_bypass, read, skip, write
from host_rig import RUNNING, in_namespace, missing, run

CAP_NET_ADMIN, CAP_NET_RAW = 1 << 12, 1 << 13
NAMESPACE = f"weir-privileges-{os.getpid()}"
FRAME = bytes.fromhex("020000000001020000000002") + b"\x08\x00" + bytes(50)
PORTS = ("net_af_packet0,iface=card0,framecnt=1024", "net_tap0,iface=host0", "net_pcap0,rx_pcap=capture.pcap,tx_pcap=out.pcap",
         "net_ring0", "net_memif0,role=server,socket={folder}/ports/memif.sock,socket-abstract=no", "net_vhost0,iface={folder}/ports/vhost.sock")
# Peers of the last two, made by another data plane that sends all it can.
PEERS = ("net_memif0,role=client,socket={folder}/ports/memif.sock,socket-abstract=no", "net_virtio_user0,path={folder}/ports/vhost.sock,queue_size=256")


def wire():
    run("ip", "netns", "add", NAMESPACE)
    run("ip", "-n", NAMESPACE, "link", "add", "card0", "type", "veth", "peer", "name", "peer0")
    for interface in ("card0", "peer0"):
        run("ip", "-n", NAMESPACE, "link", "set", interface, "up")


def start(session, name, config, ports, options, inside=(), socket_path="run/dataplane.sock"):
    with open(session.path(name + ".yaml"), "w", encoding="ascii") as file:
        file.write(config)
    memory = Memory(8192, 2048)
    command = [*inside, os.path.join(session.build, "dataplane/dataplane"), "-l", "0", "--no-pci", *options,
               *memory.eal_options(name + os.path.basename(session.folder))]
    for port in ports:
        command += ["--vdev", port.format(folder=session.folder)]
    command += ["--", "--config", session.path(name + ".yaml"), "--socket", session.path(socket_path),
                "--state-dir", session.path("state/" + name)]
    return session._start(name, command)


def start_judge(session, user):
    """The data plane under test. With EAL's telemetry, whose threads are nobody's business otherwise."""
    if not os.path.islink(session.path("dataplane.sock")):
        os.symlink(session.path("run/dataplane.sock"), session.path("dataplane.sock"))  # where controld looks
    before = session.log("dataplane").count(RUNNING) if os.path.exists(session.path("dataplane.log")) else 0
    session.dataplane = start(session, "dataplane", f"forward: pair\nprivileges: {{user: {user}, seccomp: kill}}\n"
                              "mempool: {mbufs: 16384}\n", PORTS, (), ("nsenter", f"--net=/run/netns/{NAMESPACE}"))
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
    """Names of the threads that run before all that is not real time."""
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
        equal(realtime_threads(getattr(session, name).pid), wanted if may else [], f"{what}: real-time threads of {name}")
        equal("the panic switch has no real-time thread" in session.log(name), not may, f"{what}: {name} says that it has none")


def check_threads(pid, user, capabilities, what, seccomp="2", at_least=4):
    account = pwd.getpwnam(user)
    expected = {"Uid": "\t".join([str(account.pw_uid)] * 4), "Gid": "\t".join([str(account.pw_gid)] * 4),
                "CapInh": 0, "CapPrm": capabilities, "CapEff": capabilities, "CapBnd": 0, "CapAmb": 0,
                "NoNewPrivs": "1", "Seccomp": seccomp}
    threads = status_of_threads(pid)
    check(len(threads) >= at_least, f"{what}: threads of EAL and of our own: {list(threads)}")
    for name, fields in threads.items():
        for key, value in expected.items():
            found = int(fields[key], 16) if key.startswith("Cap") else fields[key]
            equal(found, value, f"{what}: thread {name}: {key}")
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
            peer = start(session, "peer", "forward: pair\nprivileges: {user: root}\n", ("net_null0", port), ("--single-file-segments", "--no-telemetry"),
                         socket_path="peer.sock")
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


def works(session, user, what):
    send_frames(session, f"{what}: frames from the card")
    saved = session.path("state/dataplane/snapshot.weir")
    policies = [read(session.path(name + ".yaml")).decode() for name in ("weir-second", "weir")]
    for policy in (*policies, *policies):
        write(session.folder, "weir.yaml", policy)
        check(controlctl(session, "reload")["ok"], f"{what}: a reload")
        equal(os.stat(saved).st_uid, pwd.getpwnam(user).pw_uid, f"{what}: owner of the saved snapshot")
    for state in ("on", "off"):
        order_bypass(session, state, what)
    flap(session, what)
    peers_come_and_go(session, what)


def as_user(user, function):
    """What function() returns, a small number, in a process of that user."""
    child = os.fork()
    if child == 0:
        account = pwd.getpwnam(user)
        os.setgroups([])
        os.setgid(account.pw_gid)
        os.setuid(account.pw_uid)
        os._exit(function())
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def plants_nothing(session, user, what):
    """The data plane holds its sockets; whoever takes it over cannot take the place of controld's."""
    folder = session.path("run")
    status = os.stat(folder)
    equal((status.st_uid, stat.S_IMODE(status.st_mode)), (0, 0o755), f"{what}: owner and mode of the sockets' folder")
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
    equal(as_user(user, count_successes), 0, f"{what}: of {list(tries)} work in the sockets' folder")
    equal(sorted(os.listdir(folder)), before, f"{what}: what is in the sockets' folder")


def test_user(user):
    what = f"user {user}"
    with Session(BUILD) as session:
        os.chmod(session.folder, 0o711)
        make_samples(session.folder, flows=100, frames=500)
        os.mkdir(session.path("ports"))  # drivers make their sockets before the user changes, and remove them after
        os.chown(session.path("ports"), pwd.getpwnam(user).pw_uid, -1)
        start_judge(session, user)
        print(next(line for line in session.log("dataplane").splitlines() if "no_new_privs" in line))
        session.start_controld(session.path("weir.yaml"))
        session.wait_enforced()
        check_threads(session.dataplane.pid, user, 0, what)
        check_threads(session.controld.pid, "root", 0, f"{what}: controld", at_least=2)
        check_realtime(session, what)
        works(session, user, what)
        plants_nothing(session, user, what)
        check_threads(session.dataplane.pid, user, 0, what + ", after all that")
        check_realtime(session, what + ", after all that")
        equal(session.stop("dataplane"), 0, f"{what}: exit code\n{session.log('dataplane')[-1500:]}")
        check("all returned" in session.log("dataplane"), f"{what}: every mbuf is back")
        left = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with left:  # only who may write its folder takes the file away
            equal(left.connect_ex(session.path("run/dataplane.sock")), errno.ENOENT if user == "root" else errno.ECONNREFUSED,
                  f"{what}: nobody answers any more")
        start_judge(session, user)  # once more, with what it left
        check("enforcing the saved generation" in session.log("dataplane"), f"{what}: the saved snapshot is used")
        equal(session.stop("dataplane"), 0, f"{what}: exit code of the second run\n{session.log('dataplane')[-1500:]}")


def test_settings():
    """What the settings change, on a port that needs nothing."""
    rows = (("user: root, keep: [net_admin, net_raw]", CAP_NET_ADMIN | CAP_NET_RAW, "2"),
            ("user: nobody, keep: [net_raw]", CAP_NET_RAW, "2"),
            ("user: root, seccomp: off", 0, "0"))
    for settings, capabilities, seccomp in rows:
        with Session(BUILD) as session:
            os.chmod(session.folder, 0o711)
            session.dataplane = start(session, "dataplane", f"privileges: {{{settings}}}\n", (), ())
            session.wait("the ports", lambda: RUNNING in session.log("dataplane"))
            check_threads(session.dataplane.pid, "nobody" if "nobody" in settings else "root", capabilities, settings,
                          seccomp)
            equal(session.stop("dataplane"), 0, f"{settings}: exit code")


def test_foreign_state():
    """A state folder with something else in it is not given away, and the start says what to do."""
    with Session(BUILD) as session:
        os.chmod(session.folder, 0o711)
        os.makedirs(session.path("state/dataplane"), 0o700)
        open(session.path("state/dataplane/passwords"), "w", encoding="ascii").close()
        process = start(session, "dataplane", "privileges: {user: nobody}\n", (), ())
        equal(process.wait(120), 1, "exit code when the state folder cannot be written")
        check("user nobody" in session.log("dataplane") and "chown" in session.log("dataplane"),
              f"what is said: {session.log('dataplane')[-600:]}")
        equal(stat.S_IMODE(os.stat(session.path("state/dataplane")).st_mode), 0o700, "mode of the folder")
        equal(os.stat(session.path("state/dataplane")).st_uid, 0, "owner of the folder")


def test_no_user():
    """Root, and nobody to become: it does not start."""
    try:
        pwd.getpwnam("weir")
        return  # then that is who it becomes
    except KeyError:
        pass
    with Session(BUILD) as session:
        process = start(session, "dataplane", "forward: sink\n", (), ())
        equal(process.wait(120), 2, "exit code without a user")
        for part in ("useradd --system weir", "privileges: {user: NAME}", "`user: root` stays root"):
            check(part in session.log("dataplane"), f"{part} is said: {session.log('dataplane')[-600:]}")
        check(RUNNING not in session.log("dataplane"), "nothing runs without a user")


def test_who_may_ask():
    """A group may look, and not change; nobody else is heard. Changes are logged with who asked for them."""
    readers, others = grp.getgrnam("daemon").gr_gid, grp.getgrnam("mail").gr_gid
    with Session(BUILD) as session:
        os.chmod(session.folder, 0o711)
        make_samples(session.folder, flows=100, frames=500)
        tool = shutil.copy(os.path.join(session.build, "control/controlctl"), session.folder)
        session.start_controld(session.path("weir.yaml"), extra=("--read-group", "daemon"))

        def ask(*arguments, groups=(), user="nobody"):
            return subprocess.run([tool, *arguments, "--socket", session.path("controld.sock")], user=user, group=others,
                                  extra_groups=groups, capture_output=True, text=True, timeout=60, cwd="/")

        for command in ("status", "list", "shapes", "explain 203.0.113.7"):
            done = ask(*command.split(), groups=[readers])
            equal(done.returncode, 0, f"a reader asks for {command}: {done.stderr}")
        for command in ("reload", "detach"):
            done = ask(*command.split(), groups=[readers])
            equal(done.returncode, 1, f"a reader asks for {command}: {done.stderr}")
            check("may look, and not change anything" in done.stderr, f"what is said: {done.stderr}")
        for command, groups in (("bypass on", [readers]), ("status", []), ("reload", [])):
            equal(ask(*command.split(), groups=groups).returncode, 4, f"{command} in groups {groups}")
        equal(ask("status", user="root").returncode, 0, "root asks")
        check(not session.call("status")["bypass"], "bypass is still off")
        for change in ("bypass on", "bypass off", "detach"):
            session.controlctl(*change.split())
            session.wait(f"{change} to be logged with who asked for it", lambda wanted=change: re.search(
                rf'asked for command="?{wanted}"? user=0 process=\d+', session.log("controld")))
        check("user=65534" not in session.log("controld"), "what was refused is not logged as done")


if reason := missing():
    skip(reason)
with open("/proc/self/status", encoding="ascii") as file:
    if "Seccomp:" not in file.read():
        skip("kernel: no seccomp")
wire()
try:
    for name in ("root", "nobody"):
        test_user(name)
    test_settings()
    test_foreign_state()
    test_no_user()
    test_who_may_ask()
finally:
    subprocess.run(["ip", "netns", "del", NAMESPACE], check=False)
