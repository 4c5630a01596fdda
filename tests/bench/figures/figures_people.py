"""Figures for people: the time from one command to a proven first block, and how much there is to read. docs/develop/figures.md
says how each is measured."""

import json
import os
import statistics
import subprocess
import time

from figure import at_most, reported
from namespaces import mount_bpf, own_mounts, own_network
from rig import PlacedSession, spread
from session import ROOT, SessionError

BEFORE = os.environ.get("WEIR_WORDS_BEFORE", "d4e7e31")  # the commit that new users were watched with
ROUNDS, SETUP_S = 7, 5
POLICY = "version: 1\ntargets: []\nlists:\n  - {name: blocked, action: drop, dynamic: true}\n"


def setup(build, _folder):
    """`controlctl setup` on a veth pair, the restart of controld included. In a network of this process's own."""
    own_network()
    own_mounts()
    for command in ("link add out0 type veth peer name in0", "link set out0 up", "link set in0 up"):
        subprocess.run(["ip", *command.split()], check=True)
    seconds = []
    for _ in range(ROUNDS):
        with PlacedSession(build) as session:
            os.makedirs(session.path("bpf"))
            mount_bpf(session.path("bpf"))
            with open(session.path("weir.yaml"), "w", encoding="utf-8") as file:
                file.write(POLICY)
            def start(at=session):
                at.start_controld(at.path("weir.yaml"), targets=False, extra=["--bpf-dir", at.path("bpf")])
            start()
            wanted = session.path("restart-wanted")
            begin = time.monotonic()
            runs = subprocess.Popen([os.path.join(build, "control/controlctl"), "setup", "--config", session.path("weir.yaml"), "--interface",
                                     "in0", "--restart", f"touch {wanted}", "--json", "--socket", session.path("controld.sock")],
                                    stdout=subprocess.PIPE, text=True)
            session.wait("setup to restart controld", lambda at=wanted, of=runs: os.path.exists(at) or of.poll() is not None)
            session.stop("controld")
            start()
            out, _ = runs.communicate()
            seconds.append(time.monotonic() - begin)
            answer = json.loads(out)
            if not answer["ok"]:
                raise SessionError(f"setup failed: {answer}")
            subprocess.run([os.path.join(build, "control/controlctl"), "detach", "--socket", session.path("controld.sock")], check=True,
                           stdout=subprocess.DEVNULL)
    return [at_most("people.setup_s", statistics.median(seconds), SETUP_S, "s", spread(seconds))], {"seconds": seconds}


def words_at(commit):
    """Words of docs/use and docs/operate."""
    git = ["git", "-C", ROOT]
    listed = subprocess.run([*git, "ls-tree", "-r", "--name-only", commit, "docs/use", "docs/operate"], capture_output=True, text=True, check=True)
    pages = [path for path in listed.stdout.split() if path.endswith(".md")]
    return sum(len(subprocess.run([*git, "show", f"{commit}:{path}"], capture_output=True, text=True, check=True).stdout.split())
               for path in pages), len(pages)


def docs(_build, _folder):
    (now, pages), (before, pages_before) = words_at("HEAD"), words_at(BEFORE)
    return [reported("people.docs_words", now, "words", f"{pages} pages; {before} on {pages_before} pages at {BEFORE}")], None


MEASUREMENTS = (
    (("people.setup_s",), setup),
    (("people.docs_words",), docs),
)
