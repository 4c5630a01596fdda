"""Real input, known answer: mix_shared through combined-v4 drops 1,046 packets by source, 1,170 by destination and
1,800 by either, of 80,027, and the files hold the frames that the reference classifier names, byte by byte."""

from weir_smoke import agrees_with_reference, data_file, equal, temporary_folder, write

DROPPED = {"src": 1046, "dst": 1170, "either": 1800}

with temporary_folder() as folder:
    pcap = data_file(folder, "pcaps/mix_shared.pcap.xz")
    feed = data_file(folder, "blocklists/combined-v4.txt.xz")
    for match, dropped in DROPPED.items():
        policy = write(folder, f"{match}.yaml", f"version: 1\nlists:\n"
                                                f"  - {{name: combined, action: drop, match: {match}, file: {feed}}}\n")
        totals = agrees_with_reference(folder, policy, pcap)
        equal(totals["packets"], 80027, "packets")
        equal((totals["dropped"], totals["lists"]["combined"]["dropped"]), (dropped, dropped), f"dropped by {match}")
