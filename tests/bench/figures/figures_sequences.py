"""The figure of what lists that change are judged by: every step of random sequences, and versions of a real feed, on both planes
beside the reference. docs/develop/figures.md says how it is measured."""

import os

from agreement import agree_on_sequences, agree_on_updates, versions_of_feed
from figure import at_most
from rig import Skip, build_release


def sequences_wrong(build, _folder):
    if os.geteuid() != 0:
        raise Skip("root: the XDP plane needs it")
    versions = versions_of_feed()
    build_release(build, ["tests/agreement/agreement"])
    updates = agree_on_updates(build, versions, xdp=True)
    sequences = agree_on_sequences(build, xdp=True)
    note = ("sequences: {changes} changes ({added} added, {deleted} deleted, {expired} expired, {fed} by feeds) to {policies} policies in {steps} "
            "steps, {overlays} overlays, {bases} bases, {compactions} of former states, {restarts} restarts, {packets} frames, {by_xdp} of them by XDP, "
            "{disagreements} disagree; ").format(**sequences)
    note += ("updates: {versions} versions, {changes} changes, {overlays} overlays of up to {overlay_keys} keys, {packets} frames, "
             "{disagreements} disagree").format(**updates)
    value = sequences["disagreements"] + updates["disagreements"]
    return [at_most("moves.sequences_wrong", value, 0, "frames", note)], {"sequences": sequences, "updates": updates}


MEASUREMENTS = ((("moves.sequences_wrong",), sequences_wrong),)
