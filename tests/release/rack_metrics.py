"""rack.metrics_missing: what the design wants to be told to Prometheus and is not, of a real controld and data plane. The list here
is that of the design, written by hand, and knows nothing of the tables that the metrics are made of."""

import re
import urllib.request

from capture import read_capture
from figure import at_most
from rig import Session, build_release
from samples import make_samples
from session import Memory

NEEDS_BUILD = True

# What is wanted, and the metric that tells it, with the labels that it must have.
TOTALS = {name: (f"weir_{metric}_total", {"target"}) for name, metric in (
    ("packets", "packets"), ("bytes", "bytes"), ("passed", "passed_packets"), ("dropped", "dropped_packets"),
    ("malformed", "malformed_packets"), ("not_ip", "not_ip_packets"), ("incomplete", "incomplete_packets"),
    ("default_passed", "default_passed_packets"), ("default_dropped", "default_dropped_packets"),
    ("rx_missed", "rx_missed_packets"), ("tx_lost", "tx_lost_packets"), ("lost by drop_port", "capture_lost_packets"))}
OF_LISTS = {f"{name} of lists": (f"weir_list_{metric}_total", {"target", "list"}) for name, metric in (
    ("matched", "matched_packets"), ("dropped", "dropped_packets"), ("passed", "passed_packets"), ("would_drop", "would_drop_packets"),
    ("matched bytes", "matched_bytes"), ("dropped bytes", "dropped_bytes"), ("passed bytes", "passed_bytes"),
    ("would_drop bytes", "would_drop_bytes"), ("dropped by it alone", "dropped_alone_packets"))}
WANTED = {
    **TOTALS, **OF_LISTS,
    "generation": ("weir_generation", set()), "its age": ("weir_generation_age_seconds", set()),
    "reload phases": ("weir_reload_phase_seconds_bucket", {"phase", "le"}),
    "feed age": ("weir_feed_age_seconds", {"list"}),
    "feed's last success": ("weir_feed_last_success_timestamp_seconds", {"list"}),
    "entries by list": ("weir_list_entries", {"list"}), "bad lines by list": ("weir_feed_bad_lines", {"list"}),
    "guard refusals": ("weir_feed_refusals_total", {"list"}), "overlay keys": ("weir_overlay_keys", set()),
    "expected false-positive rate": ("weir_shape_expected_false_positive_ratio", {"shape"}),
    "measured false-positive rate": ("weir_shape_measured_false_positive_ratio", {"shape"}),
    "survivors by gate": ("weir_gate_measured_survivor_ratio", {"family", "side"}),
    "survivors of the gates, of traffic": ("weir_worker_stage_packets_total", {"target", "worker", "stage"}),
    "cycles a packet": ("weir_worker_busy_cycles_total", {"target", "worker"}),
    "burst sizes": ("weir_worker_burst_packets_bucket", {"target", "worker", "le"}),
    "rx_missed by port": ("weir_port_rx_missed_packets_total", {"target", "port"}), "target up": ("weir_target_up", {"target"}),
}
SAMPLE = re.compile(r'^(\w+)(?:\{(.*)\})? (\S+)$')
LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


def samples_of(text):
    """[(name, {label: value}, number)] of what Prometheus is told."""
    found = []
    for line in text.splitlines():
        if line.startswith("#") or not line:
            continue
        name, labels, value = SAMPLE.match(line).groups()
        found.append((name, dict(LABEL.findall(labels or "")), float(value)))
    return found


def missing_of(samples):
    """What is wanted and not there, or without its labels."""
    labels_of = {}
    for name, labels, _ in samples:
        labels_of.setdefault(name, []).append(set(labels))
    return [what for what, (name, labels) in WANTED.items()
            if name not in labels_of or any(found != labels for found in labels_of[name])]


def fetch(address, path="/metrics"):
    with urllib.request.urlopen(f"http://{address}{path}", timeout=60) as answer:
        return answer.read().decode()


def start_loaded(session, extra=""):
    """A data plane on a capture that goes round, and controld with the sample policy and its feeds; the address of its metrics."""
    make_samples(session.folder, flows=1000, frames=5000)
    capture = read_capture(session.path("capture.pcap"))
    session.start_dataplane("forward: hairpin\nports: [{port: 0, queues: 1}]\ntelemetry: {sample_one_in: 1}\n" + extra,
                            ["net_pcap0,rx_pcap=capture.pcap,infinite_rx=1"], 1, Memory(len(capture.frames) + 2048, capture.longest()))
    session.start_controld(session.path("weir.yaml"), metrics="127.0.0.1:0")
    session.wait_enforced()
    session.wait("traffic", lambda: session.stats()["packets"] > 50000)
    return session.call("status")["metrics"]["address"]


def missing(build, _folder):
    build_release(build)
    with Session(build) as session:
        samples = samples_of(fetch(start_loaded(session)))
    gone = missing_of(samples)
    return [at_most("rack.metrics_missing", len(gone), 0, "metrics",
                    f"of {len(WANTED)} that the design names" + (": " + ", ".join(gone) if gone else ""))], {
                        "missing": gone, "names": sorted({name for name, _, _ in samples})}


MEASUREMENTS = ((("rack.metrics_missing",), missing),)
