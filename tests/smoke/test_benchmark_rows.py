"""scripts/bench dataplane measures what its rows say: the data plane drops the share of a row, and swaps each ready-made snapshot."""

import json
import os
import subprocess

import pytest

from weir_smoke import BUILD
from added_cycles import CLIENT, give_snapshot, weir_config, weir_run
from port_rows import Row, folder_of, make_row, make_snapshot
from rig import PlacedSession

pytestmark = [pytest.mark.alone, pytest.mark.slow, pytest.mark.timeout(180)]

SECONDS = 0.2
COUNT = 4
ROWS = (Row(entries=0, hits=0), Row(entries=1_000, hits=0.5), Row("src+dst", 1_000, 0.5),
        Row(entries=1_000, hits=0.5, traffic="vlan"), Row(entries=1_000, hits=0.5, traffic="qinq"),
        Row("v6", 1_000, 0.5, traffic="v6"), Row(entries=1_000, hits=0.5, idle_port=True),
        Row("src+dst+flow", 1_000, 0.5), Row("src+dst+flow", 1_000, 1, sink=True))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_the_data_plane_drops_the_share_of_a_row(row):
    made = make_row(BUILD, row)
    found = weir_run(BUILD, made, row, SECONDS)
    assert abs(found["dropped"] - row.hits) < 0.01, f"{found['dropped']:.2%} of {found['packets']} packets dropped"
    if row.fields == "src+dst+flow":
        assert made.contents["probes_v4"] == 3, "lookups of sources, destinations and flows"


def swaps(session, snapshots, *options):
    done = subprocess.run([os.path.join(BUILD, CLIENT), "swap", session.path("dataplane.sock"), *snapshots,
                           "--per-second", "100", "--count", str(COUNT), *options], stdout=subprocess.PIPE, text=True, check=True)
    answer = json.loads(done.stdout)
    return answer["enforced"], answer["failed_steps"]


def test_a_swap_counts_only_when_the_snapshot_is_the_named_one():
    row = Row(entries=1_000, hits=0.5)
    snapshots = [make_snapshot(BUILD, folder_of(BUILD), row, number)[0] for number in (1, 2)]
    with PlacedSession(BUILD) as session:
        give_snapshot(session, make_row(BUILD, row))
        session.start_dataplane(weir_config(), ["net_null0"], 1)
        assert swaps(session, snapshots) == (COUNT, {}), "swaps"
        assert swaps(session, snapshots, "--misnamed") == (0, {"validate": COUNT}), "publications with a wrong number"
        assert swaps(session, snapshots) == (COUNT, {}), "swaps again"
