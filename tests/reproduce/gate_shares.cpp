// Which packets of real captures pass the gates of real lists, by the width of the gate; and a bitmap of hashed keys of
// the same bytes. Every capture with every list, both sides of each packet, members and strangers apart. Who is a
// member the reference classifier says, which knows nothing of filters.

#include <set>

#include "tests/reference/classifier.h"
#include "tests/reproduce/gate.h"
#include "tests/reproduce/gate_data.h"

namespace weir::reproduce {
namespace {

constexpr uint32_t kWords = (1u << 24) / 64;  // of IPv6 tables that look at more bits than a direct one

// A table of one width, or none where the format cannot hold it.
struct Width {
  filter::GateChoice::Table table = {};
  std::optional<Gates> gates = {};
};

std::vector<Width> widths_of(unsigned family) {
  std::vector<Width> widths;
  if (family == 4) {
    for (unsigned bits = kMinWidth; bits <= kMaxWidth; bits++) widths.push_back({{static_cast<uint8_t>(bits), 0}});
  } else {
    for (unsigned bits = 16; bits <= WEIR_MAX_GATE_PREFIX; bits += 4) {
      widths.push_back({{static_cast<uint8_t>(bits), bits <= 24 ? 0 : kWords}});
    }
  }
  return widths;
}

// A bit for the hash of every key of every shape: what a prefilter that knows no neighbourhoods has to hold. It is
// asked once for each shape, the bitmap of networks included.
class HashedKeys {
 public:
  HashedKeys(const filter::SnapshotInput& input, unsigned index_bits)
      : input_(input), index_bits_(index_bits), words_(uint64_t{1} << index_bits, kHugePage) {
    for (size_t t = 0; t < input.tables.size(); t++) {
      if (!stands(input.tables[t])) continue;
      for (const uint64_t key : input.tables[t].words[0]) mark(t, key);
      keys_ += input.tables[t].rules.size();
      probes_++;
    }
    for (const filter::NetworkRun& run : input.networks) {
      for (uint64_t network = run.first; network <= run.last; network++) mark(kNetworks, network);
      keys_ += run.last - run.first + uint64_t{1};
    }
    probes_ += input.networks.empty() ? 0 : 1;
  }

  bool passes(const Talker& talker) const {
    const auto address = static_cast<Ipv4>(talker.address);
    for (size_t t = 0; t < input_.tables.size(); t++) {
      const filter::KeyTable& table = input_.tables[t];
      if (!stands(table) || (table.shape.with_port && !talker.has_port)) continue;
      if (bit_of(t, filter::make_key(table.shape, address, talker.port).word[0])) return true;
    }
    return !input_.networks.empty() && bit_of(kNetworks, address >> 8);
  }
  uint64_t keys() const { return keys_; }
  unsigned probes() const { return probes_; }

 private:
  static constexpr size_t kNetworks = 99;  // as a table's number

  static bool stands(const filter::KeyTable& table) { return table.shape.family == 4 && !table.shape.flow; }
  uint64_t index(size_t table, uint64_t key) const { return scatter(scatter(table) ^ key) >> (64 - index_bits_); }
  void mark(size_t table, uint64_t key) {
    const uint64_t at = index(table, key);
    words_.get()[at >> 6] |= uint64_t{1} << (at & 63);
  }
  bool bit_of(size_t table, uint64_t key) const {
    const uint64_t at = index(table, key);
    return (words_.get()[at >> 6] >> (at & 63) & 1) != 0;
  }

  const filter::SnapshotInput& input_;
  unsigned index_bits_;
  Words words_;
  uint64_t keys_ = 0;
  unsigned probes_ = 0;
};

// A list as all captures are asked about it. Both sides of a packet meet the same tables: where a list is matched on
// either side, its gates are alike.
class AskedList {
 public:
  explicit AskedList(PlannedList list)
      : list_(std::move(list)), classifier_(list_.policy), chosen_(Gates::of(list_.planned.input)) {
    if (!chosen_) give_up(list_.name + ": the chosen gates cannot be built");
    for (const unsigned family : {4u, 6u}) {
      if (!stands(family)) continue;
      filter::SnapshotInput input = std::move(list_.planned.input);
      const auto of_product = input.gates;
      for (Width& width : widths_[family == 6] = widths_of(family)) {
        input.gates[weir_gate_number(family, WEIR_SIDE_SOURCE)].tables = {width.table};
        width.gates = Gates::of(input);
      }
      input.gates = of_product;
      list_.planned.input = std::move(input);
    }
    const weir_gate& v4 = chosen_->gate(4, WEIR_SIDE_SOURCE);
    if (v4.kind == WEIR_GATE_TABLES) {
      hashed_.emplace(list_.planned.input, static_cast<unsigned>(std::bit_width(v4.table[0].bits.size_bytes * 8) - 1));
    }
  }
  AskedList(const AskedList&) = delete;

  const std::string& name() const { return list_.name; }
  bool stands(unsigned family) const { return chosen_->gate(family, WEIR_SIDE_SOURCE).kind != WEIR_GATE_CLOSED; }

  Json about() const {
    Json row = {{"list", list_.name}, {"entries", list_.policy.lists[0].entries()}, {"families", Json::array()}};
    for (const unsigned family : {4u, 6u}) {
      if (stands(family)) row["families"].push_back(about(family));
    }
    return row;
  }

  // One side of a capture's packets, of one family. Null when it has none.
  Json ask(unsigned family, const Talkers& talkers) const {
    const std::vector<Width>& widths = widths_[family == 6];
    const filter::GateView chosen = chosen_->view(family, WEIR_SIDE_SOURCE);
    const bool is_hashed = family == 4 && hashed_.has_value();
    uint64_t members = 0, strangers = 0, through = 0, hashed_through = 0;
    std::vector<uint64_t> through_width(widths.size());
    std::set<Ipv6> member_addresses, stranger_addresses;
    for (const auto& [talker, packets] : talkers) {
      if (talker.family != family) continue;
      const uint64_t address = talker.gate_address();
      const bool passes = filter::passes_gate(chosen, address);
      const bool is_member = is_listed(talker);
      (is_member ? member_addresses : stranger_addresses).insert(talker.address);
      (is_member ? members : strangers) += packets;
      const bool hashed = is_hashed && hashed_->passes(talker);
      if (is_member && (!passes || (is_hashed && !hashed))) give_up(list_.name + ": a member does not pass");
      if (!is_member) through += passes ? packets : 0, hashed_through += hashed ? packets : 0;
      for (size_t w = 0; w < widths.size(); w++) {
        if (!widths[w].gates) continue;
        const bool wide = filter::passes_gate(widths[w].gates->view(family, WEIR_SIDE_SOURCE), address);
        if (is_member && !wide) give_up(list_.name + ": a member does not pass a gate of another width");
        if (!is_member && wide) through_width[w] += packets;
      }
    }
    if (members + strangers == 0) return nullptr;
    const auto share = [strangers](uint64_t packets) {
      return strangers == 0 ? Json() : Json(static_cast<double>(packets) / static_cast<double>(strangers));
    };
    Json row = {{"list", list_.name},           {"family", family},
                {"members", members},           {"member_addresses", member_addresses.size()},
                {"strangers", strangers},       {"stranger_addresses", stranger_addresses.size()},
                {"pass_share", share(through)}, {"hashed_share", is_hashed ? share(hashed_through) : Json()},
                {"by_width", Json::array()}};
    for (size_t w = 0; w < widths.size(); w++) {
      row["by_width"].push_back(widths[w].gates ? share(through_width[w]) : Json());
    }
    return row;
  }

 private:
  Json about(unsigned family) const {
    const weir_gate& gate = chosen_->gate(family, WEIR_SIDE_SOURCE);
    Json row = {{"family", family},
                {"gate", gate.kind == WEIR_GATE_OPEN ? "open" : "tables"},
                {"why", list_.planned.gates[weir_gate_number(family, WEIR_SIDE_SOURCE)]},
                {"tables", Json::array()},
                {"set_share", chosen_->share(family, WEIR_SIDE_SOURCE)},
                {"set_by_width", Json::array()}};
    for (unsigned t = 0; t < gate.n_tables; t++) {
      row["tables"].push_back({gate.table[t].prefix_bits, gate.table[t].bits.size_bytes});
    }
    for (const Width& width : widths_[family == 6]) {
      row["set_by_width"].push_back(width.gates ? Json(width.gates->share(family, WEIR_SIDE_SOURCE)) : Json());
    }
    if (family == 4 && hashed_) row["hashed_keys"] = hashed_->keys(), row["hashed_probes"] = hashed_->probes();
    return row;
  }
  bool is_listed(const Talker& talker) const {
    reference::PacketKeys keys;
    keys.family = talker.family;
    keys.src = talker.address;
    keys.has_ports = talker.has_port;
    keys.sport = talker.port;
    return !classifier_.classify(keys).matched.empty();
  }

  PlannedList list_;
  reference::Classifier classifier_;  // of list_.policy
  std::optional<Gates> chosen_;
  std::vector<Width> widths_[2];  // of IPv4, IPv6
  std::optional<HashedKeys> hashed_;
};

Json shares() {
  const std::vector<Capture> captures = read_captures();
  Json lists = Json::array(), rows = Json::array(), about = Json::array();
  for (const Capture& capture : captures) about.push_back({{"capture", capture.name}, {"packets", capture.packets}});
  say("gate: " + std::to_string(captures.size()) + " captures are read");
  for (const std::filesystem::path& path : list_paths()) {
    std::optional<PlannedList> planned = plan_list(path);
    if (!planned) continue;
    const AskedList list(std::move(*planned));
    lists.push_back(list.about());
    for (const Capture& capture : captures) {
      for (const unsigned family : {4u, 6u}) {
        for (const unsigned side : {WEIR_SIDE_SOURCE, WEIR_SIDE_DESTINATION}) {
          if (!list.stands(family)) continue;
          Json row = list.ask(family, capture.side[side]);
          if (row.is_null()) continue;
          row["capture"] = capture.name;
          row["side"] = side == WEIR_SIDE_SOURCE ? "source" : "destination";
          rows.push_back(std::move(row));
        }
      }
    }
  }
  Json widths = Json::object();
  for (const unsigned family : {4u, 6u}) {
    for (const Width& width : widths_of(family)) widths[std::to_string(family)].push_back(width.table.prefix_bits);
  }
  return {{"captures", about}, {"lists", lists}, {"widths", widths}, {"rows", rows}};
}

}  // namespace
}  // namespace weir::reproduce

// --quick changes nothing: it is short.
int main() {
  using namespace weir::reproduce;
  const Json result = {{"traffic", data_folder().empty() ? Json() : shares()}};
  std::printf("%s\n", result.dump().c_str());
}
