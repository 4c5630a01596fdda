"""Long work shows how far it is on a terminal: numbers rise, the line goes at the end. Pipes, --quiet and --json show nothing, and
quick work neither. Real programs on a pseudo-terminal; a feed of some million hosts, so that no machine is too quick."""

import os
import pty
import re
import select
import socket
import subprocess
import threading
import time

from weir_smoke import BUILD, Session, check, controlctl, equal, write
from session import can_connect

HOSTS = int(os.environ.get("WEIR_PROGRESS_HOSTS", 4_000_000))
POLICY = "version: 1\nfilter: {{memory: 4GiB, false_positive_rate: {rate}}}\nlists:\n  - {{name: hosts, action: drop, file: {feed}}}\n"
COUNTED = re.compile(r"(read|merge|build|prove|export): ([\d,.]+) of ([\d,.]+) (MB|entries|keys) \((\d+) %\), (\d+) s")
PROGRAM = os.path.join(BUILD, "control/controlctl")


class Terminal:
    """What a program writes to it on stderr (and stdout, without a file for it)."""

    def __init__(self, command, stdout=None):
        ours, theirs = pty.openpty()
        self.text, self.ours = "", ours
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=stdout or theirs, stderr=theirs, start_new_session=True,
                                        env=dict(os.environ, NO_COLOR="1"))
        os.close(theirs)
        self.thread = threading.Thread(target=self.read, daemon=True)
        self.thread.start()

    def read(self):
        while True:
            try:
                select.select([self.ours], [], [])
                chunk = os.read(self.ours, 65536)
            except OSError:  # the other end is closed
                return
            if not chunk:
                return
            self.text += chunk.decode(errors="replace")

    def end(self):
        code = self.process.wait(600)
        self.thread.join(10)
        return code


def shown(text):
    """The states of the line, one after the other."""
    return [state for state in re.split(r"\r\x1b\[K", text)[1:] if state]


def check_rises(text, what, phases):
    states = shown(text)
    counted = [COUNTED.search(state) for state in states]
    seen = {found.group(1): [] for found in counted if found}
    for found in counted:
        if found:
            seen[found.group(1)].append(float(found.group(2).replace(",", "")))
    rising = {phase for phase, numbers in seen.items() if len(set(numbers)) > 1}
    for numbers in seen.values():
        equal(numbers, sorted(numbers), f"{what}: numbers of a phase only rise")
    check(rising & phases, f"{what}: no phase of {phases} shows rising numbers: {states[:20]}")
    print(f"{what}: {len(states)} states, rising in {sorted(rising)}; one of them: {states[len(states) // 2]!r}", flush=True)
    return states


def command(session, *arguments):
    return [PROGRAM, *arguments, "--socket", session.path("controld.sock")]


with Session(BUILD) as session:
    feed, policy = session.path("hosts.txt"), session.path("weir.yaml")
    with open(feed, "w", encoding="ascii") as file:
        for begin in range(0, HOSTS, 100_000):
            file.write("".join(f"{10 + (n >> 23)}.{n >> 15 & 255}.{n >> 7 & 255}.{(n << 1 & 255) | 1}\n" for n in range(begin, begin + 100_000)))
    write(session.folder, "weir.yaml", POLICY.format(feed=feed, rate=0.005))
    write(session.folder, "small.yaml", "version: 1\nlists: [{name: a, action: drop, entries: [192.0.2.1]}]\n")
    state = session.state_path("controld")

    # check compiles by itself.
    begin = time.monotonic()
    terminal = Terminal([PROGRAM, "check", policy])
    code = terminal.end()
    took = time.monotonic() - begin
    check(code in (0, 3), f"check: exit {code}: {terminal.text[-500:]}")
    states = check_rises(terminal.text, "check", {"read", "merge", "build", "prove"})
    check(len(states) <= 10 * took + 5, f"{len(states)} states in {took:.1f} s: more than 10 a second")
    check(terminal.text.rstrip("\r\n").rpartition("\r\x1b[K")[2].find(" %), ") < 0, "the line goes at the end")
    for arguments in (["--quiet"], ["--json"]):
        terminal = Terminal([PROGRAM, "check", policy, *arguments])
        check(terminal.end() in (0, 3), f"check {arguments}: {terminal.text[-500:]}")
        equal(shown(terminal.text), [], f"check {arguments}: a line of progress")
    done = subprocess.run([PROGRAM, "check", policy], capture_output=True, text=True, timeout=600)
    check("\x1b" not in done.stderr + done.stdout and " %), " not in done.stderr, f"check, piped: {done.stderr[-300:]}")
    terminal = Terminal([PROGRAM, "check", session.path("small.yaml")])
    equal(terminal.end(), 0, "check of little")
    if not shown(terminal.text):
        print("check of little shows nothing", flush=True)
    check(all(not COUNTED.search(one) for one in shown(terminal.text)), "check of little counts nothing")

    # controld's first start, and the reload that controlctl waits for.
    daemon = Terminal([os.path.join(BUILD, "control/controld"), "--config", policy, "--socket", session.path("controld.sock"), "--state-dir", state,
                       "--target", session.path("dataplane.sock")])
    states_seen = []

    def is_ready():
        check(daemon.process.poll() is None, f"controld ended: {daemon.text[-1000:]}")
        if not can_connect(session.path("controld.sock"), socket.SOCK_STREAM):
            return False
        answer = session.call("status")
        if "progress" in answer:
            states_seen.append((answer["reloading"], answer["progress"]["done"], answer["progress"]["of"], answer["progress"]["unit"]))
        return not answer["starting"]

    session.wait("controld to be ready", is_ready, 600, turn=0.1)
    try:
        check_rises(daemon.text, "controld's start", {"read", "merge", "build", "prove"})
        check(len({one[1] for one in states_seen}) > 1, f"status tells how far it is: {states_seen}")
        check(all(0 <= done <= of for _, done, of, _ in states_seen), f"done is at most of: {states_seen}")
        lines = [line for line in re.sub(r"\r\x1b\[K", "\n", daemon.text).splitlines() if " published generation=" in line]
        check(lines and re.match(r"\d{4}-", lines[0]), f"lines of the log begin where the line of progress was: {lines}")

        write(session.folder, "weir.yaml", POLICY.format(feed=feed, rate=0.004))  # another filter: all is built anew
        terminal = Terminal(command(session, "reload"))
        terminal.end()  # 3: there is no data plane
        states = shown(terminal.text)
        check(any("controld: " in one for one in states), f"reload shows what controld does: {states[:10]}")
        print(f"reload: {len(states)} states, one of them: {states[len(states) // 2]!r}", flush=True)
        for arguments in (["--quiet"], ["--json"]):
            terminal = Terminal(command(session, "reload", *arguments))
            terminal.end()
            equal(shown(terminal.text), [], f"reload {arguments}: a line of progress")
        _, _, err = session.controlctl("reload")
        check("\x1b" not in err and "controld: " not in err, f"reload, piped: {err}")
        check("progress" not in controlctl(session, "status"), "nothing is under way any more")

        # export, when its entries go to a file.
        for arguments, phases in (((), {"export"}), (("--merged", "src"), {"export"}), (("--quiet",), set())):
            with open(session.path("exported"), "wb") as file:
                terminal = Terminal(command(session, "export", *arguments), file)
                equal(terminal.end(), 0, f"export {arguments}: {terminal.text[-300:]}")
            if phases:
                check_rises(terminal.text, f"export {arguments}", phases)
            else:
                equal(shown(terminal.text), [], f"export {arguments}: a line of progress")
    finally:
        daemon.process.terminate()
        daemon.end()
