"""False positives as XDP measures them, on a veth pair: of strangers each filter lets through what its bits say; who knows the secret
raises the alarm within ten seconds, and `rebuild` ends it, though the same packets go on."""

import os
import threading
import time

from weir_smoke import BUILD, Session, check, controlctl, equal, moved, write
from capture import read_capture
from strangers import POLICY, SHAPES, make_strangers, outside, rates_of, write_lists
from wires import Wire, make_veth, own_bpf_file_system, own_network

ALARM_S = 10


def rates(session):
    return rates_of(controlctl(session, "status"))


class Sender:
    """Sends the frames of a capture, again and again, until it is closed."""

    def __init__(self, wire, path):
        self.wire = wire
        self.frames = [bytes(frame) for frame in read_capture(path).frames]
        self.stopping = threading.Event()
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        while not self.stopping.is_set():
            for frame in self.frames:
                self.wire.send(frame)
            time.sleep(0.01)

    def close(self):
        self.stopping.set()
        self.thread.join()


def main():
    own_network()
    with Session(BUILD) as session, own_bpf_file_system(session.path("bpf")):
        make_veth("out0", "in0")
        near = Wire("out0")
        write_lists(session.folder)
        write(session.folder, "weir.yaml", POLICY.format(more="targets: [{xdp: {interfaces: [in0]}}]"))
        session.start_controld(session.path("weir.yaml"), targets=False, extra=["--bpf-dir", session.path("bpf")])
        session.wait("XDP to enforce", lambda: all(target["acknowledged"] for target in controlctl(session, "status")["targets"]))
        base = os.path.join(session.state_path("controld"), "snapshot.weir")

        make_strangers(BUILD, base, session.path("strangers.pcap"), 4000, "--xdp", "--anywhere")
        sender = Sender(near, session.path("strangers.pcap"))
        session.wait("keys of every shape", lambda: set(rates(session)) == SHAPES and all(
            rate["keys"] >= 100 for rate in rates(session).values()))
        sender.close()
        now = rates(session)
        equal(outside(controlctl(session, "status")), [], f"outside with strangers: {now}")
        for shape, rate in now.items():
            check(rate["asked"] > rate["let_through"] >= rate["found"] == 0, f"{shape}: {rate}")
            check(rate["low"] <= rate["predicted"] * 3 and rate["keys_let_through"] <= rate["let_through"], f"{shape}: {rate}")

        told = make_strangers(BUILD, base, session.path("attack.pcap"), 100, "--xdp", "--anywhere", "--let-through", seed=2)
        check(all(shape["keys"] == shape["let_through"] == 100 for shape in told.values()), f"keys of the attack: {told}")
        sender = Sender(near, session.path("attack.pcap"))
        session.wait("the alarm", lambda: outside(controlctl(session, "status")), seconds=ALARM_S)
        session.wait("the alarm of every shape", lambda: len(outside(controlctl(session, "status"))) == len(SHAPES))

        check(controlctl(session, "rebuild")["ok"], "rebuild")
        # The gates' tables are others, too: few of these keys are asked about at all.
        moved(session, 50_000)
        session.wait("rates of the new snapshot", lambda: set(rates(session)) == SHAPES)
        equal(outside(controlctl(session, "status")), [], f"outside after the rebuild: {rates(session)}")
        sender.close()


main()
