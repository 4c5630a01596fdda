"""Shared by mended_control.py, mended_peers.py and tests/smoke/test_waits.py: a server of feeds that holds its
answers back, orders that are given at the same time, callers who may only read. Standard library only."""

import contextlib
import grp
import http.server
import inspect
import json
import os
import signal
import subprocess
import threading
import time

from pace import hold
from session import SessionError

CLOSED_MS = 10_000   # what an `add` counts that is closed without an answer, or refused
PATIENCE_S = 60      # a server answers at last, also when nobody releases it
BASE = "version: 1\ntargets: []\nlists:\n  - {name: jail, action: drop, dynamic: true}\n"
PYTHON = "/usr/bin/python3"  # that other users may run


class Feeds:
    """A server of feeds. It answers paths below /held/ after release(), and redirects those below /to/."""

    def __init__(self, host="127.0.0.1"):
        self.released, self.is_asked = threading.Event(), threading.Event()
        self.asked, self.redirect = [], ""
        self.has_given_up = False  # a held answer was given for want of patience
        self.lock = threading.Lock()
        feeds = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                with feeds.lock:
                    feeds.asked.append(self.path)
                feeds.is_asked.set()
                if self.path.startswith("/held/") and not feeds.released.wait(PATIENCE_S):
                    feeds.has_given_up = True
                with contextlib.suppress(OSError):
                    if self.path.startswith("/to/"):
                        self.send_response(302)
                        self.send_header("Location", feeds.redirect)
                        self.send_header("Content-Length", "0")
                        self.end_headers()
                        return
                    body = b"198.18.7.7\n"
                    self.send_response(200)
                    self.send_header("Content-Length", str(len(body)))
                    self.end_headers()
                    self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer((host, 0), Handler)
        self.server.daemon_threads = True
        self.base = f"http://{host}:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.released.set()
        self.server.shutdown()
        self.server.server_close()

    def list_of(self, path, name="net"):
        """A line of a policy: a list that is fetched from there."""
        return f"  - {{name: {name}, action: drop, url: \"{self.base}{path}\"}}\n"

    def wait_asked(self):
        if not self.is_asked.wait(PATIENCE_S):
            raise SessionError("the server of a feed was not asked")

    def release(self):
        self.released.set()


class Order(threading.Thread):
    """Something that is asked for while other things go on. done: (seconds, what it returned, or the SessionError)."""

    def __init__(self, function, *arguments, **fields):
        super().__init__(daemon=True)
        self.function, self.arguments, self.fields = function, arguments, fields
        self.done = None
        self.start()

    def run(self):
        begin = time.monotonic()
        try:
            result = self.function(*self.arguments, **self.fields)
        except (SessionError, OSError, subprocess.SubprocessError) as error:
            result = error
        self.done = time.monotonic() - begin, result

    def is_over(self):
        return self.done is not None

    def result(self):
        self.join()
        return self.done[1]


def write(session, name, text):
    path = session.path(name)
    with open(path + ".new", "w", encoding="utf-8") as file:
        file.write(text)
    os.rename(path + ".new", path)
    return path


def add(session, entry):
    """(ms, why it counts as not made) of one `add`."""
    begin = time.monotonic()
    try:
        answer = session.call("add", name="jail", entries=[entry])
        error = "" if answer.get("ok") else answer.get("error", "refused")
    except SessionError as closed:
        error = str(closed)
    ms = (time.monotonic() - begin) * 1000
    return (max(ms, CLOSED_MS) if error else ms), error


class Adds:
    """The slowest of the `add`s that are made while something else goes on."""

    def __init__(self, session):
        self.session, self.n, self.worst, self.failed, self.error = session, 0, 0.0, 0, ""

    def make(self, most=20, until=lambda: False, pause_s=0.05):
        """So many, or as many as there is time for until something is over."""
        for _ in range(most):
            if until():
                break
            ms, error = add(self.session, f"203.0.{self.n >> 8 & 255}.{self.n & 255}")
            self.n += 1
            self.worst = max(self.worst, ms)
            self.failed += bool(error)
            self.error = self.error or error
            hold(pause_s)
        return self

    def told(self):
        text = f"{self.worst:.0f} of {self.n}"
        return text + (f", {self.failed} not made: {' '.join(self.error.split())[:80]}" if self.failed else "")


def helpers_of(process):
    """Processes that it started, and theirs."""
    parents = {}
    for name in os.listdir("/proc"):
        with contextlib.suppress(OSError, ValueError), open(f"/proc/{int(name)}/stat", encoding="utf-8", errors="replace") as file:
            parents.setdefault(int(file.read().rpartition(")")[2].split()[1]), []).append(int(name))
    found = list(parents.get(process.pid, []))
    for pid in found:
        found += parents.get(pid, [])
    return found


@contextlib.contextmanager
def stopped(pids):
    """They do not run (SIGSTOP)."""
    try:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)
        yield
    finally:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


# Asks the same again and again on so many connections, until the time is over. Says when it asks on all of them, and how often it
# was answered.
READER = "import time\n" + inspect.getsource(hold) + r"""
import json, socket, sys, threading
path, connections, seconds, question = sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), sys.argv[4].encode() + b"\n"
end, counts = time.monotonic() + seconds, {"answered": 0, "closed": 0}
all_ask = threading.Barrier(connections, lambda: print("asking", flush=True))
def ask():
    is_first = True
    while time.monotonic() < end:
        try:
            with socket.socket(socket.AF_UNIX) as one:
                one.settimeout(60)
                one.connect(path)
                one.sendall(question)
                if is_first:
                    is_first = False
                    all_ask.wait()
                answer = b""
                while not answer.endswith(b"\n"):
                    part = one.recv(65536)
                    if not part:
                        break
                    answer += part
            counts["answered" if answer else "closed"] += 1
        except OSError:
            counts["closed"] += 1
            hold(0.01)
threads = [threading.Thread(target=ask, daemon=True) for _ in range(connections)]
for one in threads:
    one.start()
for one in threads:
    one.join(max(0.1, end + 1 - time.monotonic()))
print(json.dumps(counts))
"""
READ_GROUP = "users"


def can_read_as_another():
    """Whether this process can be somebody who is in READ_GROUP and in no other group."""
    with contextlib.suppress(KeyError):
        return os.geteuid() == 0 and grp.getgrnam(READ_GROUP).gr_gid != 0
    return False


class Readers:
    """A process of nobody, who may look (READ_GROUP) and not change. The session's folder must let it in."""

    def __init__(self, session, connections, seconds, question):
        gid = str(grp.getgrnam(READ_GROUP).gr_gid)
        self.process = subprocess.Popen(
            ["setpriv", "--reuid", "65534", "--regid", "65534", "--groups", gid, PYTHON, "-c", READER, session.path("controld.sock"),
             str(connections), str(seconds), json.dumps(question)],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, start_new_session=True)
        self.counts = {}

    def __enter__(self):
        if not self.process.stdout.readline().startswith("asking"):
            raise SessionError("the readers do not ask")
        return self

    def is_over(self):
        return self.process.poll() is not None

    def __exit__(self, *_):
        with self.process.stdout:
            if not self.is_over():
                self.process.kill()
            counts = self.process.stdout.read()
            self.process.wait()
        self.counts = json.loads(counts) if counts else {}
