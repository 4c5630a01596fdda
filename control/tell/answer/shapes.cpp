#include "control/tell/answer/shapes.h"

namespace weir::control {

void members(Fields& f, ShapeDetails& shape) {
  f({"name", "", "as v4 addr/32, v4 dst/32 + proto + dport"}, shape.name);
  f({"family", "", "4 or 6"}, shape.family);
  f({"addr_bits", "bits", "leading bits of the address in a key; of a flow shape, of the source"}, shape.addr_bits);
  f({"with_port", "", "a key has a port, too"}, shape.with_port);
  f({"flow", "", "a key has fields of both sides"}, shape.flow);
  f({"destination_bits", "bits", "of a flow shape: leading bits of the destination in a key"}, shape.destination_bits);
  f.texts({"flow_fields", "", "of a flow shape: proto, sport, dport"}, shape.flow_fields);
  f({"layout", "", "of the filter: line8, page2, page7, ribbon, bitmap"}, shape.layout);
  f({"layout_why", "", "why this layout; may be empty"}, shape.layout_why);
  f({"k", "bits", "of a key in the filter"}, shape.k);
  f({"bits_per_key", "bits", "of the filter, for each key; 0 for a bitmap"}, shape.bits_per_key);
  directions(f, {"directions", "", "src, dst: sides of a packet that are looked up"}, shape.directions);
  f({"keys", "", "that are in it"}, shape.keys);
  f({"filter_bytes", "bytes", "of the filter"}, shape.filter_bytes);
  f({"exact_bytes", "bytes", "of the exact stage"}, shape.exact_bytes);
  f({"expected_fpr", "share", "keys of nobody that the filter will say yes to, 0 to 1"}, shape.expected_fpr);
  f.maybe({"measured_fpr", "share", "of random keys of nobody, before publication"}, shape.measured_fpr);
  f({"why", "", "which prefix lengths it serves, how many keys came from expansion"}, shape.why);
}

void members(Fields& f, GateTableDetails& table) {
  f({"prefix_bits", "bits", "leading bits of an address that it looks at"}, table.prefix_bits);
  f({"index_bits", "bits", "it has 2 to the power of this; fewer than prefix_bits: hashed"}, table.index_bits);
  f({"bytes", "bytes", "of it"}, table.bytes);
}

void members(Fields& f, GateDetails& gate) {
  f({"name", "", "as v4 src"}, gate.name);
  f({"family", "", "4 or 6"}, gate.family);
  directions(f, {"side", "", "src or dst: whose addresses it lets through or not"}, gate.side);
  f({"kind", "", "open: lets all through; closed: none, nothing is looked up there; tables"}, gate.kind);
  f.array({"tables", "", "of its bits; an address that one of them knows passes"}, gate.tables, "gate table");
  f({"expected_share", "share", "of random addresses that pass, as its bits say, 0 to 1"}, gate.expected_share);
  f.maybe({"measured_share", "share", "of random addresses that passed before publication"}, gate.measured_share);
  f({"why", "", "why it is as it is"}, gate.why);
}

void members(Fields& f, ShapesAnswer& answer) {
  f.object({"generation", "", "that runs"}, answer.generation, "generation");
  f.array({"shapes", "", "of the snapshot"}, answer.shapes, "shape");
  f.array({"false_positives", "", "of each filter at each target, beside what is predicted"}, answer.false_positives,
          "filter rate");
  f.array({"gates", "", "what a packet's addresses must pass before anything is looked up"}, answer.gates, "gate");
  f({"probes_v4", "", "filter probes of an IPv4 packet, both sides counted"}, answer.probes_v4);
  f({"probes_v6", "", "filter probes of an IPv6 packet, both sides counted"}, answer.probes_v6);
  f({"entries", "", "of all lists"}, answer.entries);
  f({"sets", "", "different sets of lists"}, answer.sets);
  f({"rules", "", "different rules of keys"}, answer.rules);
  f({"snapshot_bytes", "bytes", "room for more included"}, answer.snapshot_bytes);
  f({"proved_entries", "", "entries that were looked up and found before publication"}, answer.proved_entries);
  f({"proved_strangers", "", "addresses of no list that were looked up and not found"}, answer.proved_strangers);
}

}  // namespace weir::control
