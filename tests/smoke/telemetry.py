"""The commands below /weir of DPDK's telemetry, asked with dpdk-telemetry.py: every command with its help, and answers
that agree with each other and with what controld tells."""

import json
import os
import shutil
import subprocess

from weir_smoke import BUILD, Memory, Session, check, equal, make_samples, read_capture, skip, start_loop

COMMANDS = ("status", "generation", "workers", "worker", "lists", "ports")
STAGES = ("rx", "parse", "lookup", "verdict", "tx")


def ask(session, *commands):
    """The answers of dpdk-telemetry.py, one a command."""
    done = subprocess.run([script, "-f", os.path.basename(session.folder)], input="\n".join(commands) + "\nquit\n",
                          env=dict(os.environ, RUNTIME_DIRECTORY=session.folder), capture_output=True, text=True,
                          timeout=60)
    check(done.returncode == 0, f"dpdk-telemetry.py ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    answers = {}
    for line in done.stdout.splitlines():
        line = line.removeprefix("--> ")
        if line.startswith("{"):
            answers.update(json.loads(line))
    return answers


script = shutil.which("dpdk-telemetry.py")
if not script:
    skip("package: no dpdk-telemetry.py (package dpdk)")
with Session(BUILD) as session:
    make_samples(session.folder, flows=1000, frames=5000)
    start_loop(session, read_capture(session.path("capture.pcap")), workers=2,
               config="telemetry: {sample_one_in: 1}\n", telemetry=True)
    session.start_controld(session.path("weir.yaml"))
    session.wait_enforced()
    session.wait("traffic", lambda: session.stats()["packets"] > 50000)

    # Before there is an answer to ask for, and in both kinds of memory: the socket of --in-memory is there too.
    print(f"huge pages, --in-memory: {Memory(8192, 1518).huge}")
    known = ask(session, "/")["/"]
    for name in COMMANDS:
        check(f"/weir/{name}" in known, f"/weir/{name} is a command of {known}")
        answer, = ask(session, f"/help,/weir/{name}").values()
        check(any("." in str(text) for text in answer.values()), f"/weir/{name} has a help text: {answer}")

    generation = session.call("status")["generation"]
    equal(ask(session, "/weir/generation")["/weir/generation"], generation, "generation")
    before = session.stats()
    answers = ask(session, "/weir/status", "/weir/workers", "/weir/lists", "/weir/ports")
    after = session.stats()
    status, workers = answers["/weir/status"], answers["/weir/workers"]
    equal(status["generation"], generation, "generation in status")
    equal((status["workers"], status["ports"], status["bypass"]), (2, 1, 0), "workers, ports and bypass in status")
    check(before["packets"] <= status["packets"] <= after["packets"], "packets lie between two answers of controld")
    equal(sorted(workers), ["0", "1"], "workers")
    total = sum(worker["packets"] for worker in workers.values())
    check(before["packets"] <= total <= after["packets"], "packets of the workers add up")

    lists = {entry["name"]: entry for entry in answers["/weir/lists"].values()}
    equal(sorted(lists), sorted(after["lists"]), "names of the lists")
    for name, counts in after["lists"].items():
        for counter in ("matched", "dropped", "passed", "would_drop", "dropped_bytes"):
            check(before["lists"][name][counter] <= lists[name][counter] <= counts[counter],
                  f"{counter} of list {name} lies between two answers of controld")
    equal(ask(session, "/weir/lists,1000")["/weir/lists"], {}, "lists from the thousandth on")

    port = answers["/weir/ports"]["0"]
    equal((port["name"], port["driver"], port["link_up"]), ("net_pcap0", "net_pcap", 1), "the port")
    check(port["rx_packets"] > 0 and port["tx_packets"] > 0, f"the port counts: {port}")

    worker = ask(session, "/weir/worker,1")["/weir/worker"]
    equal((worker["worker"], worker["queues"], worker["sample_one_in"]), (1, 1, 1), "the second worker")
    for stage in STAGES:
        cost = worker["stages"][stage]
        check(cost["packets"] > 0 and cost["cycles"] > 0, f"stage {stage} has been timed: {cost}")
    times = worker["latency_ns"]
    check(0 < times["p50"] <= times["p99"] <= times["p999"] <= times["max"], f"percentiles rise: {times}")
    check(sum(int(n) * count for n, count in worker["burst_sizes"].items()) > 0, "bursts have sizes")
    queue = worker["queue_packets"]["0"]
    equal((queue["port"], queue["queue"]), (0, 1), "the queue of the second worker")
    check(queue["packets"] > 0 and worker["sampled"] > 0, f"frames of the queue, and sampled ones: {worker}")
    check(all(0 <= source["permille"] <= 1000 and source["source"] for source in worker["sources"].values()),
          f"sources: {worker['sources']}")
    equal(ask(session, "/weir/worker,2")["/weir/worker"], None, "a worker that is not there")
    equal(session.stop("dataplane"), 0, "the data plane stops with telemetry on")
