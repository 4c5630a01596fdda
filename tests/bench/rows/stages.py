"""Instructions and simulated cache misses of a packet, and the memory that a burst touches, by stage of the worker, for rows of
the port benchmark.

tests/bench/bench_stages runs the whole worker on a port in memory under valgrind. Nothing of it depends on what else the
machine does, so a difference of one instruction is a difference. valgrind knows no AVX-512: kernels are AVX2.
"""

import json
import os
import shutil
import subprocess
from collections import defaultdict

from callgrind import ENDLESS_CACHES, LINE_BYTES, read_counts, run_callgrind, source_chains
from port_rows import ROWS, make_row
from rig import Skip, say
from session import ROOT, SessionError, tail

PROGRAM = "tests/bench/bench_stages"
ISA = "avx2"
PACKETS, COLD_PACKETS = 64 * 1024, 64 * 64
PORT, PORT_FILE = "(port)", "tests/bench/memory_port.cpp"
BURST_FOLDER = "dataplane/burst/"
ROWS_COUNTED = ("empty", "src_1m", "srcdst_1m", "flow_1m", "vlan_1m", "qinq_1m", "v6_1m", "halfhit", "allhit", "mix_combined",
                "idle_port", "flow_halfhit", "flow_allhit", "v6_allhit")


def build_with_lines(build):
    """The same program with debug information, which tells what was inlined where; its build folder."""
    folder = os.path.join(build, "stages")
    steps = [["ninja", "-C", folder, PROGRAM]]
    if not os.path.exists(os.path.join(folder, "build.ninja")):
        steps.insert(0, ["meson", "setup", folder, ROOT, "-Dbuildtype=release", "-Ddebug=true", "-Dtests=enabled"])
    say(f"building {PROGRAM} with debug information in {folder}")
    for step in steps:
        done = subprocess.run(step, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
        if done.returncode != 0:
            raise SessionError(f"{' '.join(step)} failed:\n{tail(done.stdout)}")
    return folder


def stage_of(chain):
    """chain: source files, the innermost first. The stage is the innermost file of the worker's own folder; else the
    outermost file of the project."""
    own = [os.path.relpath(path, ROOT) for path in chain if path.startswith(ROOT + "/")]
    if PORT_FILE in own:
        return PORT
    stages = [path for path in own if path.startswith(BURST_FOLDER) and (path.endswith(".cpp") or path == BURST_FOLDER + "loop.h")]
    sources = [path for path in own if path.endswith(".cpp")]
    return (stages[:1] or sources[-1:] or own[-1:] or ["?"])[0].removeprefix(BURST_FOLDER)


def by_stage(counts, program):
    """{stage: {event: count}}; of libraries: by library."""
    addresses = [address for name, address in counts if os.path.samefile(name, program)] if counts else []
    chains = source_chains(program, addresses)
    found = defaultdict(lambda: defaultdict(int))
    for (name, address), events in counts.items():
        is_ours = os.path.samefile(name, program) if os.path.exists(name) else False
        stage = stage_of(chains[address]) if is_ours else os.path.basename(name).split(".so")[0]
        for event, count in events.items():
            found[stage][event] += count
    return found


def command_of(program, row, made, state):
    os.makedirs(state, 0o700, exist_ok=True)
    shutil.copyfile(made.snapshot, os.path.join(state, "snapshot.weir"))
    return [program, state, made.pcap, *(["--sink"] if row.sink else []), *(["--idle-ports", "1"] if row.idle_port else [])]


def count_row(build, lines_build, folder, name):
    """{"row", "packets", "dropped", "kernels", "stages": {stage: {"instructions", "l1_misses", "l2_misses": a packet, "touched":
    bytes a burst}}}. What several stages touch is the first one's."""
    row, program = ROWS[name], os.path.join(lines_build, PROGRAM)
    command = command_of(program, row, make_row(build, row), os.path.join(folder, "state-" + name))
    environment = dict(os.environ, WEIR_FORCE_ISA=ISA)
    out = os.path.join(folder, f"callgrind-{name}")
    say(f"counting instructions of {name}")
    told = json.loads(run_callgrind([*command, "--count", str(PACKETS)], out, environment).splitlines()[-1])
    counted = by_stage(read_counts(out), program)
    cold = json.loads(run_callgrind([*command, "--count", str(COLD_PACKETS), "--cold"], out, environment,
                                    ENDLESS_CACHES).splitlines()[-1])
    touched = by_stage(read_counts(out), program)
    stages = {}
    for stage, own in counted.items():
        stages[stage] = {"instructions": own["Ir"] / told["packets"],
                         "l1_misses": (own["D1mr"] + own["D1mw"]) / told["packets"],
                         "l2_misses": (own["DLmr"] + own["DLmw"]) / told["packets"],
                         "touched": (touched[stage]["D1mr"] + touched[stage]["D1mw"]) * LINE_BYTES / cold["bursts"]}
    return {"row": row.name, **told, "burst": cold["packets"] / cold["bursts"], "stages": stages}


def measure_stages(build, folder, names):
    for tool in ("valgrind", "addr2line"):
        if not shutil.which(tool):
            raise Skip(f"package: {tool} is not installed", missing_here=True)
    lines_build = build_with_lines(build)
    found = {}
    for name in names or ROWS_COUNTED:
        try:
            found[name] = count_row(build, lines_build, folder, name)
        except Skip as reason:
            say(f"bench: {name} skipped: {reason}")
            continue
        say(table(name, found[name]))
    if not found:
        raise Skip("no row could be counted")
    return found


COLUMNS = {"instructions": "instructions", "l1_misses": "L1 misses", "l2_misses": "L2 misses", "touched": "bytes a burst"}


def table(name, result):
    """Stages by what they cost; the port itself apart."""
    stages = dict(result["stages"])
    port = stages.pop(PORT, None)

    def line(stage, own):
        return f"  {stage:34} " + " ".join(f"{own[key]:13.{0 if key == 'touched' else 1}f}" for key in COLUMNS)

    order = sorted(stages, key=lambda stage: -stages[stage]["instructions"])
    lines = [f"{name} ({result['row']}), {result['dropped']:.1%} dropped, {result['kernels']}: a packet; and touched in a burst of "
             f"{result['burst']:.0f}",
             f"  {'stage':34} " + " ".join(f"{title:>13}" for title in COLUMNS.values())]
    lines += [line(stage, stages[stage]) for stage in order if stages[stage]["instructions"] >= 0.05]
    lines.append(line("all of the worker", {key: sum(own[key] for own in stages.values()) for key in COLUMNS}))
    if port:
        lines.append(line("the port: frames in, mbufs back", port))
    return "\n".join(lines)
