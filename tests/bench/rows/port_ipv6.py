"""Lists of IPv6 for the rates of ports: as many networks of /64 as single addresses, matched by source.

Global unicast addresses (2000::/3, RFC 4291), each network and each host in a /64 of its own. Standard library only.
"""

import os
import random

from port_draws import POLICY, SEED, ports, sample, stranger_to, write_lines

HOST_BITS = 64
# Strangers that live in the /64 of a listed host: of real captures, about so many have a neighbour in a list.
NEIGHBOURS = 0.02


def global_network(rng):
    """The leading 64 bits."""
    return 1 << 61 | rng.getrandbits(61)


def text(address):
    """The long form, which takes a tenth of the time of ipaddress's."""
    digits = f"{address:032x}"
    return ":".join(digits[at:at + 4] for at in range(0, 32, 4))


class NetworksAndHosts6:
    def __init__(self, entries):
        rng = random.Random(SEED)
        drawn = list(dict.fromkeys(global_network(rng) for _ in range(2 * entries)))
        while len(drawn) < 2 * entries:
            drawn = list(dict.fromkeys([*drawn, global_network(rng)]))
        self.networks = drawn[:entries]
        self.hosts = [network << HOST_BITS | rng.getrandbits(HOST_BITS) for network in drawn[entries:]]
        self.known, self.known_hosts = set(drawn), set(self.hosts)

    def write(self, folder, name):
        write_lines(os.path.join(folder, name + "-networks6.txt"),
                    (f"{text(network << HOST_BITS)}/64\n" for network in self.networks))
        write_lines(os.path.join(folder, name + "-hosts6.txt"), (f"{text(address)}\n" for address in self.hosts))
        write_lines(os.path.join(folder, name + ".yaml"), [
            POLICY, f"  - {{name: networks, action: drop, match: src, file: {name}-networks6.txt}}\n",
            f"  - {{name: hosts, action: drop, match: src, file: {name}-hosts6.txt}}\n"])

    def hit(self, rng, count):
        """Half of them in a listed network, half from a listed host."""
        sources = [network << HOST_BITS | rng.getrandbits(HOST_BITS) for network in sample(rng, self.networks, count // 2)]
        sources += sample(rng, self.hosts, count - count // 2)
        return [(source, anybody(rng), *ports(rng)) for source in sources]

    def miss(self, rng):
        if rng.random() < NEIGHBOURS:
            network = rng.choice(self.hosts) >> HOST_BITS
            source = stranger_to(rng, lambda draw: network << HOST_BITS | draw.getrandbits(HOST_BITS), self.known_hosts)
        else:
            source = stranger_to(rng, global_network, self.known) << HOST_BITS | rng.getrandbits(HOST_BITS)
        return source, anybody(rng), *ports(rng)


def anybody(rng):
    return global_network(rng) << HOST_BITS | rng.getrandbits(HOST_BITS)
