"""What scripts/bench dataplane measures: lists and frames fit each other, so the data plane drops the share that a row
says; and of two ready-made snapshots in turns, all are enforced, or none when they say a number that is not theirs."""

import json
import os
import subprocess

from weir_smoke import BUILD, check, equal, skip

from added_cycles import CLIENT, give_snapshot, weir_config, weir_run  # noqa: E402 (weir_smoke: tests/rig)
from port_rows import Row, folder_of, make_row, make_snapshot  # noqa: E402
from rig import PlacedSession, Skip  # noqa: E402

SECONDS = 0.2
COUNT = 4


def swaps(session, snapshots, *options):
    done = subprocess.run([os.path.join(BUILD, CLIENT), "swap", session.path("dataplane.sock"), *snapshots,
                           "--per-second", "100", "--count", str(COUNT), *options], stdout=subprocess.PIPE, text=True, check=True)
    answer = json.loads(done.stdout)
    return answer["enforced"], answer["failed_steps"]


try:
    for row in (Row(entries=0, hits=0), Row(entries=1_000, hits=0.5), Row("src+dst", 1_000, 0.5),
                Row(entries=1_000, hits=0.5, traffic="vlan"), Row(entries=1_000, hits=0.5, traffic="qinq"),
                Row("v6", 1_000, 0.5, traffic="v6"), Row(entries=1_000, hits=0.5, idle_port=True),
                Row("src+dst+flow", 1_000, 0.5), Row("src+dst+flow", 1_000, 1, sink=True)):
        made = make_row(BUILD, row)
        found = weir_run(BUILD, made, row, SECONDS)
        check(abs(found["dropped"] - row.hits) < 0.01, f"{row.name}: {found['dropped']:.2%} dropped")
        print(f"{row.name}: {found['dropped']:.2%} of {found['packets']} dropped, {made.contents['probes_v4']} probes")
    equal(made.contents["probes_v4"], 3, "probes of sources, destinations and flows")

    row = Row(entries=1_000, hits=0.5)
    snapshots = [make_snapshot(BUILD, folder_of(BUILD), row, number)[0] for number in (1, 2)]
    with PlacedSession(BUILD) as session:
        give_snapshot(session, make_row(BUILD, row))
        session.start_dataplane(weir_config(), ["net_null0"], 1)
        equal(swaps(session, snapshots), (COUNT, {}), "swaps")
        equal(swaps(session, snapshots, "--misnamed"), (0, {"validate": COUNT}), "publications that swap nothing")
        equal(swaps(session, snapshots), (COUNT, {}), "swaps again")
except Skip as reason:
    skip(reason)
