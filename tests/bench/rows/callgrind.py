"""What valgrind's callgrind counted, by instruction, and where in the source each instruction comes from.

Functions that were inlined are found, too: addr2line tells the whole chain of an address. Standard library only.
"""

import os
import re
import subprocess
from collections import defaultdict

from session import SessionError, tail

LINE_BYTES = 64
# L1 data cache of the processors of the last ten years; L2 as the smallest of them has it.
CACHES = ("--I1=32768,8,64", "--D1=32768,8,64", "--LL=1048576,8,64")
# So large that nothing is missed twice.
ENDLESS_CACHES = ("--I1=8388608,16,64", "--D1=8388608,16,64", "--LL=33554432,16,64")
EVENTS = ("Ir", "Dr", "Dw", "I1mr", "D1mr", "D1mw", "ILmr", "DLmr", "DLmw")


def run_callgrind(command, out, environment, caches=CACHES, seconds=900):
    """Counts from where the program says (client requests). What it printed."""
    done = subprocess.run(["valgrind", "--tool=callgrind", "--instr-atstart=no", "--dump-instr=yes",
                           "--cache-sim=yes", f"--callgrind-out-file={out}", *caches, *command], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, timeout=seconds, env=environment)
    if done.returncode != 0:
        raise SessionError(f"{os.path.basename(command[0])} under valgrind ended with {done.returncode}:\n{tail(done.stderr)}")
    return done.stdout


class Positions:
    """Addresses of a callgrind file, which are told relative to the one before."""

    def __init__(self):
        self.last = [0, 0]

    def read(self, words):
        for number, word in enumerate(words):
            if word[0] in "+-":
                self.last[number] += int(word, 0)
            elif word != "*":
                self.last[number] = int(word, 0)
        return self.last[0]


def read_counts(path):
    """{(object file, address in it): {event: count}}, each instruction's own."""
    counts = defaultdict(lambda: [0] * len(EVENTS))
    names, positions, name, is_call = {}, Positions(), "", False
    with open(path, encoding="utf-8", errors="replace") as file:
        for line in file:
            found = re.match(r"ob=\((\d+)\)(?: (.*))?", line)
            if found:
                if found[2]:
                    names[found[1]] = found[2].strip()
                name = names[found[1]]
            elif line.startswith("cob="):  # names are told where they come first
                found = re.match(r"cob=\((\d+)\)(?: (.*))?", line)
                if found[2]:
                    names[found[1]] = found[2].strip()
            elif line.startswith("calls="):
                is_call = True
            elif line[0] in "0123456789+-*":
                words = line.split()
                address = positions.read(words[:2])
                if not is_call:  # else what the callee cost
                    own = counts[name, address]
                    for event, word in enumerate(words[2:]):
                        own[event] += int(word)
                is_call = False
    return {place: dict(zip(EVENTS, own)) for place, own in counts.items() if any(own)}


def source_chains(program, addresses):
    """{address: [file, ...]}: of the line itself, then of each function that it was inlined into."""
    done = subprocess.run(["addr2line", "-a", "-i", "-e", program], input="".join(f"{address:#x}\n" for address in addresses),
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise SessionError(f"addr2line failed: {tail(done.stderr)}")
    chains, chain = {}, []
    for line in done.stdout.splitlines():
        if line.startswith("0x"):
            chain = chains.setdefault(int(line, 16), [])
        else:
            chain.append(os.path.normpath(line.rpartition(":")[0]))
    return chains
