"""The commands below /weir of DPDK's telemetry, asked with dpdk-telemetry.py: each has a help text, and its answers agree with
controld's."""

import json
import os
import subprocess

import pytest

from weir_smoke import make_samples, needs_programs, read_capture, start_loop

pytestmark = [pytest.mark.alone, needs_programs("dpdk-telemetry.py")]

COMMANDS = ("status", "generation", "workers", "worker", "lists", "ports")
STAGES = ("rx", "parse", "lookup", "verdict", "tx")


def ask(session, *commands):
    """The answers of dpdk-telemetry.py, one a command."""
    done = subprocess.run(["dpdk-telemetry.py", "-f", os.path.basename(session.folder)], input="\n".join(commands) + "\nquit\n",
                          env=dict(os.environ, RUNTIME_DIRECTORY=session.folder), capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, f"dpdk-telemetry.py ended with {done.returncode}:\n{done.stdout}{done.stderr}"
    answers = {}
    for line in done.stdout.splitlines():
        line = line.removeprefix("--> ")
        if line.startswith("{"):
            answers.update(json.loads(line))
    return answers


def workers_of(session):
    """As controld has them; none before their first counters."""
    return session.call("telemetry")["targets"][0]["workers"]


@pytest.fixture
def loop(session):
    """A session with two workers under traffic."""
    make_samples(session.folder, flows=1000, frames=5000)
    start_loop(session, read_capture(session.path("capture.pcap")), workers=2, config="telemetry: {sample_one_in: 1}\n", telemetry=True)
    session.start_controld(session.path("weir.yaml"))
    session.wait_enforced()
    session.wait("traffic of each worker", lambda: sum(worker["packets"] > 25000 for worker in workers_of(session)) == 2)
    return session


def test_every_command_has_a_help_text(loop):
    known = ask(loop, "/")["/"]
    for name in COMMANDS:
        assert f"/weir/{name}" in known, f"/weir/{name} is a command of {known}"
        answer, = ask(loop, f"/help,/weir/{name}").values()
        assert any("." in str(text) for text in answer.values()), f"help of /weir/{name}: {answer}"


def test_answers_agree_with_controld(loop):
    generation = loop.call("status")["generation"]
    before = loop.stats()
    answers = ask(loop, "/weir/generation", "/weir/status", "/weir/workers", "/weir/lists", "/weir/ports")
    after = loop.stats()
    assert answers["/weir/generation"] == generation, "generation"
    status, workers = answers["/weir/status"], answers["/weir/workers"]
    assert status["generation"] == generation, "generation in status"
    assert (status["workers"], status["ports"], status["bypass"]) == (2, 1, 0), "workers, ports and bypass in status"
    assert before["packets"] <= status["packets"] <= after["packets"], "packets lie between two answers of controld"
    assert sorted(workers) == ["0", "1"], "workers"
    total = sum(worker["packets"] for worker in workers.values())
    assert before["packets"] <= total <= after["packets"], "packets of the workers add up"

    lists = {entry["name"]: entry for entry in answers["/weir/lists"].values()}
    assert sorted(lists) == sorted(after["lists"]), "names of the lists"
    for name, counts in after["lists"].items():
        for counter in ("matched", "dropped", "passed", "would_drop", "dropped_bytes"):
            assert before["lists"][name][counter] <= lists[name][counter] <= counts[counter], (
                f"{counter} of list {name} lies between two answers of controld")

    port = answers["/weir/ports"]["0"]
    assert (port["name"], port["driver"], port["link_up"]) == ("net_pcap0", "net_pcap", 1), "the port"
    assert port["rx_packets"] > 0 and port["tx_packets"] > 0, f"the port counts: {port}"


def test_a_worker_has_costs_latencies_and_queues(loop):
    worker = ask(loop, "/weir/worker,1")["/weir/worker"]
    assert (worker["worker"], worker["queues"], worker["sample_one_in"]) == (1, 1, 1), "the second worker"
    for stage in STAGES:
        cost = worker["stages"][stage]
        assert cost["packets"] > 0 and cost["cycles"] > 0, f"stage {stage} is timed: {cost}"
    times = worker["latency_ns"]
    assert 0 < times["p50"] <= times["p99"] <= times["p999"] <= times["max"], f"percentiles rise: {times}"
    assert sum(int(n) * count for n, count in worker["burst_sizes"].items()) > 0, "bursts have sizes"
    queue = worker["queue_packets"]["0"]
    assert (queue["port"], queue["queue"]) == (0, 1), "the queue of the second worker"
    assert queue["packets"] > 0 and worker["sampled"] > 0, f"packets of the queue, and sampled ones: {worker}"
    assert all(0 <= source["permille"] <= 1000 and source["source"] for source in worker["sources"].values()), (
        f"sources: {worker['sources']}")


def test_numbers_past_the_end_have_no_answer(loop):
    assert ask(loop, "/weir/worker,2")["/weir/worker"] is None, "a worker that is not there"
    assert ask(loop, "/weir/lists,1000")["/weir/lists"] == {}, "lists from the thousandth on"
    assert loop.stop("dataplane") == 0, "the data plane stops with telemetry on"
