"""Long work shows its progress on a terminal: numbers rise, and the line is removed at the end. Pipes, --quiet and --json show none.

The feed has some million hosts, so that no machine is too quick."""

import collections
import os
import pty
import re
import select
import socket
import subprocess
import threading

import pytest

from weir_smoke import BUILD, controlctl, write
from session import can_connect

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

HOSTS = int(os.environ.get("WEIR_PROGRESS_HOSTS", 4_000_000))
POLICY = "version: 1\nfilter: {{memory: 4GiB, false_positive_rate: {rate}}}\nlists:\n  - {{name: hosts, action: drop, file: {feed}}}\n"
COUNTED = re.compile(r"(read|merge|build|prove|export): ([\d,.]+) of ([\d,.]+) (MB|entries|keys) \((\d+) %\), (\d+) s")
PHASES = {"read", "merge", "build", "prove"}
PROGRAM = os.path.join(BUILD, "control/controlctl")


class Terminal:
    """A program's stderr, and its stdout without a file for it."""

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
    """The states of the line, in order."""
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
        assert numbers == sorted(numbers), f"{what}: numbers of a phase only rise"
    assert rising & phases, f"{what}: no phase of {phases} shows rising numbers: {states[:20]}"
    return states


def check_quiet(*arguments):
    """--quiet and --json show no line on a terminal."""
    for option in ("--quiet", "--json"):
        terminal = Terminal([PROGRAM, *arguments, option])
        assert terminal.end() in (0, 3), f"{arguments} {option}: {terminal.text[-500:]}"  # 3: there is no data plane
        assert shown(terminal.text) == [], f"{arguments} {option}: a line of progress"


def write_policy(session, rate):
    return write(session.folder, "weir.yaml", POLICY.format(feed=session.path("hosts.txt"), rate=rate))


@pytest.fixture
def policy(session):
    """With a feed of HOSTS entries."""
    with open(session.path("hosts.txt"), "w", encoding="ascii") as file:
        for begin in range(0, HOSTS, 100_000):
            file.write("".join(f"{10 + (n >> 23)}.{n >> 15 & 255}.{n >> 7 & 255}.{(n << 1 & 255) | 1}\n"
                               for n in range(begin, begin + 100_000)))
    return write_policy(session, 0.005)


def test_check_counts_on_a_terminal(policy):
    terminal = Terminal([PROGRAM, "check", policy])
    code = terminal.end()
    assert code in (0, 3), f"exit code {code}: {terminal.text[-500:]}"
    states = check_rises(terminal.text, "check", PHASES)
    # Each state tells how long the program has worked, in whole seconds; its report, the last one, does not.
    of_second = collections.Counter(found and found[1] for found in (re.search(r", (\d+) s\b", state) for state in states))
    assert max(of_second.values()) <= 11, f"more than 10 states a second: {of_second}"
    assert of_second[None] <= 5, f"states without their time: {states}"
    assert " %), " not in terminal.text.rstrip("\r\n").rpartition("\r\x1b[K")[2], "the line is removed at the end"


def test_check_shows_nothing_with_quiet_json_or_a_pipe(policy):
    check_quiet("check", policy)
    done = subprocess.run([PROGRAM, "check", policy], capture_output=True, text=True, timeout=600)
    assert "\x1b" not in done.stderr + done.stdout and " %), " not in done.stderr, f"check, piped: {done.stderr[-300:]}"


def test_check_of_one_entry_counts_nothing(session):
    small = write(session.folder, "small.yaml", "version: 1\nlists: [{name: a, action: drop, entries: [192.0.2.1]}]\n")
    terminal = Terminal([PROGRAM, "check", small])
    assert terminal.end() == 0, "exit code"
    assert all(not COUNTED.search(one) for one in shown(terminal.text)), shown(terminal.text)


@pytest.fixture
def daemon(session, policy):
    """controld on a terminal, as it starts."""
    terminal = Terminal([os.path.join(BUILD, "control/controld"), "--config", policy, "--socket", session.path("controld.sock"),
                         "--state-dir", session.state_path("controld"), "--target", session.path("dataplane.sock")])
    yield terminal
    terminal.process.terminate()
    terminal.end()


def check_start(session, daemon):
    seen = []

    def is_ready():
        assert daemon.process.poll() is None, f"controld ended: {daemon.text[-1000:]}"
        if not can_connect(session.path("controld.sock"), socket.SOCK_STREAM):
            return False
        answer = session.call("status")
        if "progress" in answer:
            seen.append((answer["progress"]["done"], answer["progress"]["of"]))
        return not answer["starting"]

    session.wait("controld to be ready", is_ready, 600, turn=0.1)
    check_rises(daemon.text, "controld's start", PHASES)
    assert len({done for done, _ in seen}) > 1, f"status has its progress: {seen}"
    assert all(0 <= done <= of for done, of in seen), f"done is at most the total: {seen}"
    lines = [line for line in re.sub(r"\r\x1b\[K", "\n", daemon.text).splitlines() if " published generation=" in line]
    assert lines and re.match(r"\d{4}-", lines[0]), f"lines of the log begin at the left: {lines}"


def check_reload(session):
    write_policy(session, 0.004)  # another filter: all is built anew
    place = ("--socket", session.path("controld.sock"))
    terminal = Terminal([PROGRAM, "reload", *place])
    terminal.end()
    states = shown(terminal.text)
    assert any("controld: " in one for one in states), f"progress of controld: {states[:10]}"
    check_quiet("reload", *place)
    _, _, err = session.controlctl("reload")
    assert "\x1b" not in err and "controld: " not in err, f"reload, piped: {err}"
    assert "progress" not in controlctl(session, "status"), "status after the reload"


def check_export(session):
    for arguments, phases in (((), {"export"}), (("--merged", "src"), {"export"}), (("--quiet",), set())):
        with open(session.path("exported"), "wb") as file:
            terminal = Terminal([PROGRAM, "export", *arguments, "--socket", session.path("controld.sock")], file)
            assert terminal.end() == 0, f"export {arguments}: {terminal.text[-300:]}"
        if phases:
            check_rises(terminal.text, f"export {arguments}", phases)
        else:
            assert shown(terminal.text) == [], f"export {arguments}: a line of progress"


def test_a_start_a_reload_and_an_export_count_on_a_terminal(session, daemon):
    check_start(session, daemon)
    check_reload(session)
    check_export(session)
