"""Tables fit the terminal: at 80 columns no line of a table is wider, and --wide, or a pipe, has all of it."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import termios

import pytest

from weir_smoke import BUILD, controlctl, write

COLUMNS = 80
CONTROLCTL = os.path.join(BUILD, "control/controlctl")
LONG = "a-list-with-a-name-that-is-rather-long"
POLICY = f"""version: 1
lists:
  - {{name: {LONG}, comment: "what the abuse desk of our upstream sends us, ticket 4711", action: drop, dynamic: true}}
  - {{name: partners, action: pass, entries: [192.0.2.1, 192.0.2.0/25]}}
  - {{name: {LONG}-too, action: drop, mode: monitor, file: feeds/of/somebody/else/with/a/long/path.txt}}
  - {{name: flows, action: drop, entries: [{{src: 198.51.100.0/24, dst: 203.0.113.9, proto: tcp, dport: 443, dscp: 46, length: 40-1500}}]}}
"""
COMMANDS = [("status",), ("stats",), ("list",), ("list", LONG), ("list", LONG, "--entries"), ("feeds",), ("compare",), ("compare", "--matrix"),
            ("history",), ("shapes",), ("explain", "192.0.2.1"), ("explain", "192.0.2.1", "--verbose"), ("top", "--once"), ("plan", "PLANNED"),
            ("formats",), ("recommend", "--rules"), ("size", "--entries", "1M", "--no-calibration", "--all"), ("shadow",), ("drops",)]


@pytest.fixture
def session(session):
    """Enforces the policy, and has some history."""
    os.makedirs(session.path("feeds/of/somebody/else/with/a/long"))
    write(session.folder, "feeds/of/somebody/else/with/a/long/path.txt", "198.51.100.7\n198.51.100.0/28\nnonsense\n")
    write(session.folder, "planned.yaml", POLICY.replace("192.0.2.0/25", "192.0.2.0/24").replace("mode: monitor, ", ""))
    session.start_dataplane("forward: sink\nports: [{port: 0}]", ["net_null0"], 1)
    session.start_controld(write(session.folder, "weir.yaml", POLICY))
    session.wait_enforced()
    controlctl(session, "add", "203.0.113.7", "2001:db8::1", "src 203.0.113.9 proto udp dport 53", "--list", LONG, "--ttl", "1h",
               "--comment", "a comment that goes on for longer than anybody wants to read at a terminal")
    return session


def at_a_terminal(session, command, *options):
    """What the command prints on a terminal of so many columns."""
    ours, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 24, COLUMNS, 0, 0))
    arguments = [session.path("planned.yaml") if word == "PLANNED" else word for word in command]
    running = subprocess.Popen([CONTROLCTL, *arguments, *options, "--socket", session.path("controld.sock"), "--quiet"],
                               stdout=its, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
    os.close(its)
    text = b""
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:  # its end is closed
            break
        if not part:
            break
        text += part
    os.close(ours)
    assert running.wait() in (0, 1, 6), f"controlctl {command}: {text}"
    return text.decode().replace("\r\n", "\n")


def table_lines(text):
    """Lines with columns: two blanks between words."""
    return [line for line in text.splitlines() if re.search(r"\S  +\S", line)]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_tables_are_no_wider_than_the_terminal(session, command):
    wide = [line for line in table_lines(at_a_terminal(session, command)) if len(line) > COLUMNS]
    assert not wide, "\n".join(wide)


def test_a_pipe_and_wide_have_all_of_it(session):
    narrow = at_a_terminal(session, ("list",))
    assert "--wide shows all" in narrow
    whole = session.controlctl("list")[1]
    assert "what the abuse desk of our upstream sends us, ticket 4711" in whole
    assert at_a_terminal(session, ("list",), "--wide") == whole
