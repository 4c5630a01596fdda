"""Figures of the filter at the memory limit. docs/develop/figures.md says how each is measured; tests/bench/filter_figures does."""

import contextlib
import json
import os
import re
import shutil
import statistics
import subprocess
from concurrent.futures import ThreadPoolExecutor

from figure import at_least, at_most, reported
from rig import WORKER_NICE, Skip, say, set_group_weight
from session import SessionError, tail

PROGRAM = "tests/bench/filter_figures"
HUGE_PAGES = "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages"
HUGE_PAGE_MIB = 2
SECONDS = 900  # of one run

MILLION = 1_000_000
SIZES = {"1m": MILLION, "10m": 10 * MILLION, "100m": 100 * MILLION}
L2_KEYS = 500_000
# 2 MiB pages for a run, MiB: measured, and a quarter more. Peers: snapshot, rte_hash and rte_member together.
LIMIT_MIB = {L2_KEYS: 16, 100 * MILLION: 192}
PEERS_MIB = {"1m": 256, "10m": 1536, "100m": 13312}
BUILD_MIB = 6144

VS_VBF = {"1m": 6, "10m": 9, "100m": 18}
VS_VBF_SYNC = {"1m": 4, "10m": 5.5, "100m": 7}
VS_RTE_HASH = {"1m": 3.5, "10m": 5, "100m": 4.5}
ALLHIT, ALLHIT_VS_TABLE = 2.0, 1.1

LAYOUTS = ("line8", "page2", "page7", "ribbon")
BUCKETS = ("v4", "v4_port", "v6", "v6_port", "flow")
# name: (loop of tests/bench/filter_counted.h, keys in a batch)
LOOPS = {"hash": ("hash", 64), "step": ("step", 64),
         **{f"{what}_{layout}": (f"{what}/{layout}", 64) for what in ("prefetch", "check") for layout in LAYOUTS},
         **{f"find_{bucket}": (f"find/{bucket}", 64) for bucket in BUCKETS},
         **{f"{what}_{batch}": (f"{what}/v6", batch) for what in ("miss", "hit") for batch in (8, 64)}}
COUNTED_ISAS = ("scalar", "avx2")  # valgrind knows no AVX-512


@contextlib.contextmanager
def huge_pages(mib):
    """So many MiB of 2 MiB pages more than now, where root may reserve them; afterwards as before."""
    wanted = mib // HUGE_PAGE_MIB
    if wanted == 0:
        yield
        return
    try:
        with open(HUGE_PAGES, encoding="ascii") as file:
            before = int(file.read())
        with open(HUGE_PAGES, "w", encoding="ascii") as file:
            file.write(str(before + wanted))
        with open(HUGE_PAGES, encoding="ascii") as file:
            got = int(file.read()) - before
    except OSError as error:
        say(f"filter: no 2 MiB pages reserved ({error.strerror}): transparent ones, and no peers of DPDK")
        yield
        return
    try:
        say(f"filter: {got * HUGE_PAGE_MIB} MiB of 2 MiB pages reserved for this run"
            + (f", wanted {mib}" if got < wanted else ""))
        yield
    finally:
        with open(HUGE_PAGES, "w", encoding="ascii") as file:
            file.write(str(before))


def program(build):
    if subprocess.run(["ninja", "-C", build, PROGRAM], stdout=subprocess.DEVNULL,
                      stderr=subprocess.DEVNULL).returncode != 0:
        raise SessionError(f"{PROGRAM} cannot be built")
    return os.path.join(build, PROGRAM)


def available_mib():
    with open("/proc/meminfo", encoding="ascii") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("MemAvailable:")) // 1024


def measured(build, mode, *arguments, mib=0, own_mib=0):
    """What the program printed. mib: of 2 MiB pages; own_mib: of ordinary memory beside them."""
    command = ["nice", "-n", str(WORKER_NICE), program(build), mode, *map(str, arguments)]
    if available_mib() < mib + own_mib:
        raise Skip(f"needs {mib + own_mib} MiB of memory, {available_mib()} are available")
    say("filter: " + " ".join([mode, *map(str, arguments)]))
    with huge_pages(mib):
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        set_group_weight(process.pid, WORKER_NICE)
        try:
            out, err = process.communicate(timeout=SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise SessionError(f"{mode} took more than {SECONDS} s") from None
    if process.returncode != 0:
        raise SessionError(f"filter_figures {mode} ended with {process.returncode}: {tail(err)}")
    return json.loads(out)


def where(result, mib=None):
    return f"{result['isa']}, {mib or result['mib']:.4g} MiB, pages {result['pages']}"


def sides(comparison, a, b):
    """Both sides of a ratio, keys made on the way already subtracted."""
    ratios = comparison["ratios"]
    return (f"median of {len(ratios)} [{min(ratios):.3g} .. {max(ratios):.3g}]; ns/key: "
            f"{a} {comparison['a_ns'] - comparison['a_keys_ns']:.2f} ({comparison['a']}), "
            f"{b} {comparison['b_ns'] - comparison['b_keys_ns']:.2f} ({comparison['b']}), "
            f"making keys {comparison['a_keys_ns']:.2f} and {comparison['b_keys_ns']:.2f} not counted")


def limit_100m(build, _folder):
    result = measured(build, "limit", "--keys", SIZES["100m"], mib=LIMIT_MIB[SIZES["100m"]], own_mib=2048)
    rows = (("gather", "gather_100m", 0.93), ("gather_la1", "gather_100m_la1", 0.98), ("keyed", "keyed_100m", 0.90))
    return [at_least(f"filter.{name}", result[key]["ratio"], target, "of the limit",
                     f"{sides(result[key], 'limit', 'filter')}; {where(result)}") for key, name, target in rows], result


def keyed_l2(build, _folder):
    result = measured(build, "limit", "--keys", L2_KEYS, mib=LIMIT_MIB[L2_KEYS])
    fitting = result["l2_keys"]
    beside = None if fitting >= L2_KEYS else measured(build, "limit", "--keys", fitting, mib=LIMIT_MIB[L2_KEYS])
    inverse = {**result["keyed"], "ratios": [1 / ratio for ratio in result["keyed"]["ratios"]]}
    note = f"{sides(inverse, 'limit', 'filter')}; {where(result)}"
    if beside:
        note += (f"; larger than three quarters of L2 ({result['l2_kib']} KiB): with {fitting} keys "
                 f"{1 / beside['keyed']['ratio']:.2f}")
    return [at_most("filter.keyed_l2", 1 / result["keyed"]["ratio"], 2.6, "limits", note)], [result, beside]


PEERS = {}  # results by size: two measurements use them


def peers(build, size):
    if size not in PEERS:
        own = {"100m": 2560}.get(size, 512)
        result = measured(build, "peers", "--keys", SIZES[size], mib=PEERS_MIB[size], own_mib=own)
        for name in ("vs_rte_hash", "vs_rte_hash_allhit"):
            if any(abs(found - result[name]["hits"]) > 0.01 for found in result[name]["found"]):
                raise SessionError(f"{name} at {SIZES[size]} keys: {result[name]['hits']} are hits, "
                                   f"ours and the peer found {result[name]['found']}")
        PEERS[size] = result
    return PEERS[size]


def beside_peers(size):
    names = (f"filter.vs_vbf_{size}", f"filter.vs_vbf_sync_{size}", f"filter.vs_rte_hash_{size}")

    def measure(build, _folder):
        result = peers(build, size)
        rates = (f"; {where(result, result['filter_mib'])}, vBF {result['vbf_mib']:.4g} MiB; rates {100 * result['rate']:.2f}"
                 f" and {100 * result['vbf_rate']:.2f} %")
        table = f"; {where(result)}, rte_hash {result['rte_hash_mib']:.4g} MiB"
        rows = (("vs_vbf", VS_VBF, "vBF", rates), ("vs_vbf_sync", VS_VBF_SYNC, "vBF", rates),
                ("vs_rte_hash", VS_RTE_HASH, "rte_hash", table))
        return [at_least(name, result[key]["ratio"], targets[size], "times", sides(result[key], peer, "ours") + note)
                for name, (key, targets, peer, note) in zip(names, rows)], result

    measure.__name__ = f"beside_peers_{size}"
    return names, measure


def allhit(build, _folder):
    """Every packet a hit, at each size: the figures are those of the worst."""
    runs = {size: peers(build, size)["vs_rte_hash_allhit"] for size in SIZES}
    tables = {size: run["table_alone"] for size, run in runs.items()}
    worst = min(runs, key=lambda size: runs[size]["ratio"])
    worst_table = max(tables, key=lambda size: tables[size]["ratio"])

    def note(values, size, *names):
        each = ", ".join(f"{name} {value['ratio']:.2f}" for name, value in values.items())
        return (f"the worst of {each}; {size}: {sides(values[size], *names)}; {where(PEERS[size])}; a random line of it "
                f"{PEERS[size]['table_limit_ns']:.2f} ns")

    return [at_least("filter.vs_rte_hash_allhit", runs[worst]["ratio"], ALLHIT, "times",
                     note(runs, worst, "rte_hash", "ours")),
            at_most("filter.allhit_vs_table", tables[worst_table]["ratio"], ALLHIT_VS_TABLE, "times",
                    note(tables, worst_table, "ours", "table alone"))], runs


def rates(build, _folder):
    result = measured(build, "rates")
    worst = max(result["rows"], key=lambda row: row["off_less_3_sigma"])
    note = (f"{worst['layout']} at {worst['bits_per_key']:.4g} bits: {100 * worst['measured']:.4g} % measured, "
            f"{100 * worst['expected']:.4g} % expected, sigma {100 * worst['sigma']:.2f} %; the worst of "
            f"{len(result['rows'])} rows, |measured / expected - 1| - 3 sigma")
    checks = ", ".join(f"{name} {count / MILLION:.0f}" for name, count in result["checks_by_layout"].items())
    return [at_most("filter.fpr_error_max", worst["off_less_3_sigma"], 0.02, "relative", note),
            at_most("filter.false_negatives", result["false_negatives"], 0, "keys",
                    f"{result['checks']} members looked up; million: {checks}")], result


def builds(build, _folder):
    result = measured(build, "build", "--keys", SIZES["100m"], mib=BUILD_MIB, own_mib=2560)

    def note(rate):
        seconds = rate["wall_s"]
        return (f"median of {len(seconds)}: {statistics.median(seconds):.3f} s [{min(seconds):.3f} .. {max(seconds):.3f}] "
                f"on {rate['threads']} threads, {rate['cpu_mkeys_s']:.0f} by processor time")

    one = result["filter_one"]
    figures = [at_least("filter.build_mkeys_s", result["filter"]["mkeys_s"], 120, "Mkeys/s",
                        f"{note(result['filter'])}; one thread {one['mkeys_s']:.0f} (processor time "
                        f"{one['cpu_mkeys_s']:.0f}); {where(result)}"),
               at_least("filter.snapshot_mkeys_s", result["snapshot"]["mkeys_s"], 45, "Mkeys/s",
                        f"{note(result['snapshot'])}; {result['isa']}, {result['snapshot_mib']:.0f} MiB, pages "
                        f"{result['snapshot_pages']}")]
    return figures, result


def instructions_of(command, isa, what, batch, keys):
    environment = dict(os.environ, WEIR_FORCE_ISA=isa)
    done = subprocess.run(["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", *command, "--what", what,
                           "--batch", str(batch), "--keys", str(keys)], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          timeout=SECONDS)
    found = re.search(r"Collected : (\d+)", done.stderr)
    if done.returncode != 0 or not found:
        raise SessionError(f"callgrind of {what} ({isa}) failed:\n{tail(done.stderr)}")
    return int(found[1])


def instructions(build, _folder):
    """The difference of a short and a longer run, so that what surrounds the loop does not count."""
    if not shutil.which("valgrind"):
        raise Skip("valgrind is not installed")
    command = [program(build), "loop"]
    few, many = 100, 1100  # batches

    def per_key(row):
        isa, what, batch = row
        counts = [instructions_of(command, isa, what, batch, batch * batches) for batches in (many, few)]
        return (counts[0] - counts[1]) / (batch * (many - few))

    say("filter: instructions by callgrind")
    rows = [(isa, name, what, batch) for isa in COUNTED_ISAS for name, (what, batch) in LOOPS.items()]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        counts = list(pool.map(per_key, [(isa, what, batch) for isa, _, what, batch in rows]))
    figures = [reported(f"filter.instructions_{isa}_{name}", count, "instructions/key",
                        f"batches of {batch}" + ("; a 16-byte key" if what in ("hash", "step") or "/v6" in what else ""))
               for (isa, name, what, batch), count in zip(rows, counts)]
    return figures, {f"{isa}_{name}": count for (isa, name, _, _), count in zip(rows, counts)}


# (names it gives, function): each returns figures and its raw runs.
MEASUREMENTS = (
    (("filter.gather_100m", "filter.gather_100m_la1", "filter.keyed_100m"), limit_100m),
    (("filter.keyed_l2",), keyed_l2),
    *(beside_peers(size) for size in SIZES),
    (("filter.vs_rte_hash_allhit", "filter.allhit_vs_table"), allhit),
    (("filter.fpr_error_max", "filter.false_negatives"), rates),
    (("filter.build_mkeys_s", "filter.snapshot_mkeys_s"), builds),
    (tuple(f"filter.instructions_{isa}_{name}" for isa in COUNTED_ISAS for name in LOOPS), instructions),
)
