#!/usr/bin/env python3
"""Each alert of configs/monitoring/weir-alerts.yml fires where it should and is silent where it should be: promtool reads the rules,
and tests them on series that are made up here. Each has a row, so that a new alert without one fails.
    alerts.py
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
RULES = os.path.join(ROOT, "configs/monitoring/weir-alerts.yml")
T = 'target="/run/weir/dataplane.sock"'
# alert: [({series: values each minute}, whether it fires after 30 minutes)]
ROWS = {
    "WeirTargetDown": [({f"weir_target_up{{{T}}}": "0x60"}, True), ({f"weir_target_up{{{T}}}": "1x60"}, False)],
    "WeirControldDown": [({'up{job="weir"}': "0x60"}, True), ({'up{job="weir"}': "1x60"}, False), ({'up{job="other"}': "0x60"}, False)],
    "WeirNoGeneration": [({"weir_generation": "0x60", "weir_starting": "0x60"}, True),
                         ({"weir_generation": "0x60", "weir_starting": "1x60"}, False),
                         ({"weir_generation": "7x60", "weir_starting": "0x60"}, False)],
    "WeirLastGoodOnly": [({"weir_from_last_good": "1x60"}, True), ({"weir_from_last_good": "0x60"}, False)],
    "WeirTargetBehind": [({f"weir_target_up{{{T}}}": "1x60", f"weir_target_acknowledged{{{T}}}": "0x60"}, True),
                         ({f"weir_target_up{{{T}}}": "0x60", f"weir_target_acknowledged{{{T}}}": "0x60"}, False),
                         ({f"weir_target_up{{{T}}}": "1x60", f"weir_target_acknowledged{{{T}}}": "1x60"}, False)],
    "WeirReloadFailed": [({"weir_last_reload_success": "0x60"}, True), ({"weir_last_reload_success": "1x60"}, False)],
    "WeirBypassOn": [({"weir_bypass": "1x60"}, True), ({f"weir_target_bypass{{{T}}}": "1x60"}, True),
                     ({"weir_bypass": "0x60", f"weir_target_bypass{{{T}}}": "0x60"}, False)],
    "WeirNotDurable": [({"weir_durable": "0x60"}, True), ({f"weir_target_durable{{{T}}}": "0x60"}, True),
                       ({"weir_durable": "1x60", f"weir_target_durable{{{T}}}": "1x60"}, False)],
    "WeirFleetNotFollowed": [({"weir_fleet_followed": "0x60"}, True), ({"weir_fleet_followed": "1x60"}, False)],
    "WeirFleetBehind": [({"weir_fleet_revision": "3x60", "weir_fleet_wanted_revision": "4x60"}, True),
                        ({"weir_fleet_revision": "4x60", "weir_fleet_wanted_revision": "4x60"}, False)],
    "WeirFeedStale": [({'weir_feed_last_success_timestamp_seconds{list="a"}': "0x60", 'weir_feed_fetch_interval_seconds{list="a"}': "300x60"}, True),
                      ({'weir_feed_last_success_timestamp_seconds{list="a"}': "0x60", 'weir_feed_fetch_interval_seconds{list="a"}': "3600x60"}, False),
                      ({'weir_feed_last_success_timestamp_seconds{list="a"}': "0x60"}, False)],
    "WeirFeedRefused": [({'weir_feed_refused{list="a"}': "1x60"}, True), ({'weir_feed_refused{list="a"}': "0x60"}, False)],
    "WeirFeedBadLines": [({'weir_feed_bad_lines{list="a"}': "20x60", 'weir_feed_lines{list="a"}': "100x60"}, True),
                         ({'weir_feed_bad_lines{list="a"}': "5x60", 'weir_feed_lines{list="a"}': "100x60"}, False)],
    "WeirPacketsLostAtInput": [({f"weir_rx_missed_packets_total{{{T}}}": "0+60x60"}, True), ({f"weir_rx_missed_packets_total{{{T}}}": "77x60"}, False)],
    "WeirPacketsLostAtOutput": [({f"weir_tx_lost_packets_total{{{T}}}": "0+60x60"}, True), ({f"weir_tx_lost_packets_total{{{T}}}": "77x60"}, False)],
    "WeirCaptureLost": [({f"weir_capture_lost_packets_total{{{T}}}": "0+60x60"}, True), ({f"weir_capture_lost_packets_total{{{T}}}": "77x60"}, False)],
    "WeirWorkerSaturated": [({f'weir_worker_busy_cycles_total{{{T},worker="0"}}': "0+95x60", f'weir_worker_cycles_total{{{T},worker="0"}}': "0+100x60"}, True),
                            ({f'weir_worker_busy_cycles_total{{{T},worker="0"}}': "0+50x60", f'weir_worker_cycles_total{{{T},worker="0"}}': "0+100x60"}, False)],
    "WeirLimitNear": [({'weir_limit_used{limit="lists"}': "240x60", 'weir_limit_max{limit="lists"}': "256x60"}, True),
                      ({'weir_limit_used{limit="lists"}': "100x60", 'weir_limit_max{limit="lists"}': "256x60"}, False)],
    "WeirSnapshotNearTargetLimit": [({f"weir_target_snapshot_bytes{{{T}}}": "95x60", f"weir_target_snapshot_limit_bytes{{{T}}}": "100x60"}, True),
                                    ({f"weir_target_snapshot_bytes{{{T}}}": "50x60", f"weir_target_snapshot_limit_bytes{{{T}}}": "100x60"}, False)],
    "WeirFalsePositives": [({'weir_shape_measured_false_positive_ratio{shape="s"}': "0.01x60", 'weir_shape_expected_false_positive_ratio{shape="s"}': "0.005x60"}, True),
                           ({'weir_shape_measured_false_positive_ratio{shape="s"}': "0.006x60", 'weir_shape_expected_false_positive_ratio{shape="s"}': "0.005x60"}, False),
                           ({'weir_shape_measured_false_positive_ratio{shape="s"}': "0.00003x60", 'weir_shape_expected_false_positive_ratio{shape="s"}': "0.00001x60"}, False)],
    "WeirFalsePositivesOutside": [({f'weir_filter_false_positives_outside{{{T},shape="s",part="base"}}': "1x60"}, True),
                                  ({f'weir_filter_false_positives_outside{{{T},shape="s",part="base"}}': "0x60"}, False)],
    "WeirMemory": [({"weir_controld_resident_memory_bytes": "5000000000x60"}, True), ({"weir_controld_resident_memory_bytes": "100000000x60"}, False)],
}


def case_of(alert, series, fires):
    """A test of promtool: that the number of alerts of this name is right. Written as an expression, so that their texts are free."""
    return {"interval": "1m", "input_series": [{"series": name, "values": values} for name, values in series.items()],
            "promql_expr_test": [{"expr": f'count(ALERTS{{alertname="{alert}",alertstate="firing"}})', "eval_time": "30m",
                                  "exp_samples": [{"labels": "{}", "value": 1}] if fires else []}]}


def main():
    if not shutil.which("promtool"):
        print("skipped: package: no promtool (package prometheus)")
        return 77
    subprocess.run(["promtool", "check", "rules", RULES], check=True)
    with open(RULES, encoding="ascii") as file:
        known = [line.split()[-1] for line in file if line.strip().startswith("- alert: ")]
    if sorted(known) != sorted(ROWS):
        print(f"without a row here, or a row without an alert: {sorted(set(known) ^ set(ROWS))}")
        return 1
    cases = [case_of(alert, *row) for alert, rows in ROWS.items() for row in rows]
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "tests.yml")
        with open(path, "w", encoding="ascii") as file:  # JSON is YAML
            json.dump({"rule_files": [RULES], "evaluation_interval": "1m", "tests": cases}, file)
        done = subprocess.run(["promtool", "test", "rules", path], check=False)
    print(f"{len(known)} alerts, {len(cases)} cases")
    return done.returncode


sys.exit(main())
