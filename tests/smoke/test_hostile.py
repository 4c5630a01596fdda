"""Hostile snapshots, messages, requests and answers end no program, and each program answers afterwards. An enforcer refuses a snapshot
that is hostile by design, or bounds the work on it. scripts/figures safe.hostile sends millions."""

import os

import pytest

from weir_smoke import BUILD, needs_root
import hostile

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

FOR_XDP = (needs_root("XDP needs it"), pytest.mark.skipif(not os.path.isdir("/sys/fs/bpf"), reason="kernel: no BPF file system"))
LEAST_KINDS = 17


@pytest.mark.parametrize("send", (
    pytest.param(hostile.kinds_to_dataplane, id="dataplane"),
    pytest.param(hostile.kinds_to_xdp, id="xdp", marks=FOR_XDP)))
def test_snapshots_that_are_hostile_by_design_are_refused_or_bounded(send):
    result = send(BUILD)
    wrong = [row for row in result["kinds"] if row["wrong"]]
    assert not wrong and not result["crashes"] and result["sent"] >= LEAST_KINDS, f"{wrong} {result}"


@pytest.mark.parametrize(("send", "count"), (
    pytest.param(hostile.snapshots_to_dataplane, 300, id="snapshots-to-dataplane"),
    pytest.param(hostile.snapshots_to_xdp, 300, id="snapshots-to-xdp", marks=FOR_XDP),
    pytest.param(hostile.messages_to_dataplane, 20_000, id="messages-to-dataplane"),
    pytest.param(hostile.requests_to_controld, 3_000, id="requests-to-controld"),
    pytest.param(hostile.answers_to_controld, 1_000, id="answers-to-controld")))
def test_mutated_messages_are_refused_and_end_nothing(send, count):
    result = send(BUILD, count)
    assert result["sent"] >= count and not result["crashes"], result
    assert result["refused"] > 0, "no message was refused"
