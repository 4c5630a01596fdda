"""Lanes: a generator, a pair of veth and what filters at its other end, each in namespaces of its own.

tests/bench/xdp_bench makes the namespaces and is all that holds them: when it ends, whoever ended it, its interfaces,
rules, sets, pins and mounts are gone. Frames are made, sent and judged on one processor.
"""

import json
import os
import re
import shutil
import subprocess
import time

from rig import STOP_SECONDS, WORKER_NICE, Skip, end_with_parent, placed, processors, set_group_weight
from session import SessionError, tail

PROGRAM = "tests/bench/xdp_bench"
FILL_SECONDS = 900  # loading a list
HITS, MISSES = "hits", "misses"
XDP_FILTER_MOST = 10_000  # entries; its maps are made for so many


def need_root():
    if os.geteuid() != 0:
        raise Skip("root: needed for BPF programs and namespaces")


def need(*programs):
    for program in programs:
        if not shutil.which(program, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin"):
            raise Skip(f"package: {program} is not installed (scripts/setup bench)", missing_here=True)


def run_tool(command, what, **options):
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=FILL_SECONDS,
                              **options)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Skip(f"{what}: {error}", missing_here=True) from None
    if done.returncode != 0:
        raise Skip(f"{what} failed: {tail(done.stderr or done.stdout, 2)}", missing_here=True)
    return done.stdout


class Lane:
    """One peer's. run() returns nanoseconds a packet, or Skip says why the peer cannot be measured."""
    program = "none"  # of xdp_bench at the receiver

    def __init__(self, build, folder, entries):
        self.build, self.folder, self.entries = build, folder, entries
        self.load_s = None
        self.log = os.path.join(folder, f"lane-{type(self).__name__}-{self.program}.log")
        cpu, _ = processors()
        command = placed([os.path.join(build, PROGRAM), "lane", "--peer", self.program, "--entries", str(entries)],
                         [cpu], WORKER_NICE)
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log,
                                            text=True, bufsize=1, start_new_session=True, preexec_fn=end_with_parent)
        set_group_weight(self.process.pid, WORKER_NICE)
        try:
            self.ready = self._answer()
            self.set_up()
        except BaseException:
            self.close()
            raise

    def set_up(self):
        """What filters, when it is no program of xdp_bench."""

    def counts(self):
        """{HITS, MISSES} so far, of what xdp_bench does not count itself; None: it does."""

    def inside(self, *command):
        """The command, in the lane's namespaces."""
        return ["nsenter", "-t", str(self.process.pid), "-n", "-m", *command]

    def text_of_hosts(self, name):
        path = os.path.join(self.folder, f"hosts-{name}-{self.entries}.txt")
        if not os.path.exists(path):
            with open(path, "w", encoding="ascii") as file:
                subprocess.run([os.path.join(self.build, PROGRAM), "hosts", "--entries", str(self.entries),
                                "--format", name], stdout=file, check=True)
        return path

    def timed(self, command, what, **options):
        start = time.monotonic()
        run_tool(self.inside(*command), what, **options)
        self.load_s = time.monotonic() - start

    def _answer(self):
        line = self.process.stdout.readline()
        if not line:
            self.process.wait()
            with open(self.log, encoding="utf-8", errors="replace") as file:
                raise SessionError(f"the lane of {self.program} ended: {tail(file.read(), 3)}")
        return json.loads(line)

    def run(self, hits, seconds, seed):
        """{"ns": of the processor a packet, "mpps", "hits": share, ...} of packets that were decided."""
        self._command(hits, 0.2, seed)  # caches
        before = self.counts()
        ran = self._command(hits, seconds, seed)
        if before is not None:
            after = self.counts()
            ran.update({key: after[key] - before[key] for key in after})
        decided = ran[HITS] + ran[MISSES]
        if decided < 0.99 * ran["sent"]:
            raise SessionError(f"{self.program}: {decided} of {ran['sent']} frames were decided")
        return {"ns": ran["core_ns"] / decided, "mpps": decided / ran["core_ns"] * 1e3, "decided": decided,
                "hits": ran[HITS] / decided, "wall_ns": ran["wall_ns"] / decided, "lost": ran["sent"] - decided}

    def _command(self, hits, seconds, seed):
        self.process.stdin.write(f"run {hits} {seconds} {seed}\n")
        self.process.stdin.flush()
        return self._answer()

    def close(self):
        self.process.stdin.close()
        try:
            self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
        self.process.wait()
        self.process.stdout.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Parse(Lane):
    """The base: every frame is parsed and dropped."""
    program = "parse"


class Hash(Lane):
    program = "hash"


class Lpm(Lane):
    program = "lpm"


class Bloom(Lane):
    program = "bloom"


class Weir(Lane):
    program = "weir"


class Nft(Lane):
    family, hook = None, None

    def set_up(self):
        need("nft")
        self.counted = {HITS: 0, MISSES: 0}
        path = os.path.join(self.folder, f"nft-{self.family}-{self.entries}.nft")
        with open(path, "w", encoding="ascii") as file, open(self.text_of_hosts("nft"), encoding="ascii") as hosts:
            # With a size nft takes its fastest set of single addresses.
            file.write(f"""table {self.family} bench {{
  set members {{ type ipv4_addr; size {self.entries}; }}
  counter {HITS} {{ }}
  counter {MISSES} {{ }}
  chain judge {{
    type filter hook {self.hook}; policy accept;
    ip saddr @members counter name {HITS} drop;
    counter name {MISSES} drop;
  }}
}}
""")
            for line in hosts:
                file.write(line.replace("FAMILY", self.family, 1))
        self.timed(["nft", "-f", path], "nft")

    def counts(self):
        # To list them nft would read the whole set first, which takes seconds; to reset them it does not.
        told = json.loads(run_tool(self.inside("nft", "-j", "reset", "counters", "table", self.family, "bench"),
                                   "nft reset counters"))
        for entry in told["nftables"]:
            if "counter" in entry:
                self.counted[entry["counter"]["name"]] += entry["counter"]["packets"]
        return dict(self.counted)


class NftPrerouting(Nft):
    family, hook = "ip", "prerouting priority raw"


class NftIngress(Nft):
    family, hook = "netdev", 'ingress device "r0" priority 0'


class Ipset(Lane):
    """hash:ip behind iptables, raw table; the older iptables is the faster one."""

    def set_up(self):
        need("ipset", "iptables")
        self.iptables = "iptables-legacy" if shutil.which("iptables-legacy", path="/usr/sbin:/sbin:/usr/bin") else \
            "iptables"
        size = max(1 << (self.entries - 1).bit_length(), 1024)
        path = os.path.join(self.folder, f"ipset-{self.entries}.txt")
        with open(path, "w", encoding="ascii") as file, open(self.text_of_hosts("ipset"), encoding="ascii") as hosts:
            file.write(f"create members hash:ip hashsize {size} maxelem {max(self.entries, 1)}\n")
            shutil.copyfileobj(hosts, file)
        self.timed(["ipset", "restore", "-file", path], "ipset")
        table = [self.iptables, "-w", "-t", "raw", "-A", "PREROUTING"]
        run_tool(self.inside(*table, "-m", "set", "--match-set", "members", "src", "-j", "DROP"), self.iptables)
        run_tool(self.inside(*table, "-j", "DROP"), self.iptables)

    def counts(self):
        told = run_tool(self.inside(self.iptables, "-w", "-t", "raw", "-nvxL", "PREROUTING"), self.iptables)
        packets = [int(line.split()[0]) for line in told.splitlines()[2:]]
        return {HITS: packets[0], MISSES: packets[1]}


class XdpFilter(Lane):
    """xdp-filter ends a hit by dropping, a miss by its policy: of a lane, it can do only one cheaply."""
    policy = "allow"

    def set_up(self):
        need("xdp-filter", "ethtool")
        if self.entries > XDP_FILTER_MOST:
            raise Skip(f"xdp-filter holds {XDP_FILTER_MOST} addresses")
        run_tool(self.inside("xdp-filter", "load", "-m", "native", "-f", "ipv4", "-p", self.policy, "r0"), "xdp-filter")
        with open(self.text_of_hosts("plain"), encoding="ascii") as hosts:
            run_tool(self.inside("xdp-filter", "ip", "-m", "src", hosts.readline().strip()), "xdp-filter ip")
        self.timed([os.path.join(self.build, PROGRAM), "fill-xdp-filter", "--entries", str(self.entries)],
                   "filling xdp-filter")

    def counts(self):
        told = run_tool(self.inside("ethtool", "-S", "r0"), "ethtool")
        dropped = int(re.search(r"rx_queue_0_xdp_drops: (\d+)", told)[1])
        packets = int(re.search(r"rx_queue_0_xdp_packets: (\d+)", told)[1])
        return {HITS: dropped, MISSES: packets - dropped} if self.policy == "allow" else \
            {HITS: packets - dropped, MISSES: dropped}


class XdpFilterDeny(XdpFilter):
    policy = "deny"
