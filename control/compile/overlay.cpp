#include "control/compile/overlay.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <optional>
#include <tuple>

#include "common/clock.h"
#include "control/compile/merge/merge.h"
#include "control/compile/plan/flow_index.h"
#include "control/compile/prove/bits_rate.h"
#include "control/compile/prove/prove.h"
#include "control/compile/seal.h"
#include "control/lists/book/difference.h"
#include "control/policy/model/search.h"
#include "filter/format/rules.h"
#include "filter/probe/exact.h"
#include "filter/read/overlay.h"

namespace weir::control {
namespace {

// Prefixes that are longer than what the base has a shape for become keys of these lengths.
constexpr unsigned kMostExpandedBits = 16;  // a prefix is written out as 2^16 keys at most
constexpr unsigned kOwnLengthsV4[] = {16, 24, 32}, kOwnLengthsV6[] = {32, 40, 48, 56, 64, 96, 128};

using filter::ShapeView;
using filter::SnapshotView;

// Why no overlay can say it.
struct NeedsRebuild {
  std::string why;
};

// A key of an address shape.
template <class Addr>
struct AddressKey {
  Addr address;
  uint16_t port;
  auto operator<=>(const AddressKey&) const = default;
};

// The keys of one shape whose rule may be another one, and what flows that were added say about some of them.
template <class Addr>
struct TouchedShape {
  filter::KeyShape shape;
  const ShapeView* of_base;  // null: the base does not have it
  std::vector<AddressKey<Addr>> keys;
  std::vector<RuledPrefix<Addr>> added_flows;
};

class OverlayMaker {
 public:
  OverlayMaker(const Policy& policy, const OverlayBase& base) : policy_(policy), base_(base) {
    for (const weir_shape& shape : std::span(base.snapshot.header().shapes, base.snapshot.header().n_shapes)) {
      report_.of_base += shape.n_keys;
    }
    most_keys_ = most_overlay_keys(report_.of_base);
  }

  // False: why() says what needs a rebuild.
  bool run() {
    input_.lists.clear();
    for (const List& list : policy_.lists) input_.lists.push_back({list.name, list.action, list.mode, list.entries()});
    input_.default_action = policy_.default_action;
    input_.unparsed_action = policy_.unparsed_action;
    input_.tunnels = policy_.tunnels;
    return find_changes() && index_added_flows() && touch(changes_v4_, v4_) && touch(changes_v6_, v6_) &&
           touch_flows(merged_.v4, v4_) && touch_flows(merged_.v6, v6_) && make_tables(v4_) && make_tables(v6_) &&
           make_flow_tables() && choose_gates() && finish();
  }

  const std::string& why() const { return why_; }
  OverlayReport& report() { return report_; }
  filter::SnapshotInput& input() { return input_; }
  const std::vector<Entry<Ipv4>>& changes_v4() const { return changes_v4_; }
  const std::vector<Entry<Ipv6>>& changes_v6() const { return changes_v6_; }
  bool has_new_flows() const { return has_new_flows_; }

 private:
  bool rebuild(std::string why) {
    why_ = std::move(why);
    return false;
  }

  bool find_changes() {
    if (policy_.lists.size() != base_.book.size()) return rebuild("the lists are others");
    for (size_t l = 0; l < policy_.lists.size(); l++) {
      const List &now = policy_.lists[l], &was = base_.book[l];
      if (now.name != was.name || now.action != was.action || now.mode != was.mode) {
        return rebuild("the lists are others");
      }
      added_flows_.emplace_back();
      if (now.content == was.content || now.content->digest == was.content->digest) continue;
      Difference of_list = difference(*was.content, *now.content);
      if (!of_list.removed.flows.empty()) {
        return rebuild(fmt::format("list {} lost flows: only a new base can take conditions away", now.name));
      }
      has_new_flows_ |= !of_list.added.flows.empty();
      added_flows_.back() = std::move(of_list.added.flows);
      const auto take = [&](auto& changes, Difference::Part& part, auto member) {
        changes.insert(changes.end(), (part.*member).begin(), (part.*member).end());
      };
      report_.added += of_list.added.v4.size() + of_list.added.v6.size() + added_flows_.back().size();
      report_.removed += of_list.removed.v4.size() + of_list.removed.v6.size();
      for (Difference::Part* part : {&of_list.added, &of_list.removed}) {
        take(changes_v4_, *part, &Difference::Part::v4);
        take(changes_v6_, *part, &Difference::Part::v6);
      }
      if (changes_v4_.size() + changes_v6_.size() > most_keys_) return too_many();
    }
    return true;
  }

  bool too_many() {
    return rebuild(fmt::format("more than {} keys changed since generation {} was built", most_keys_,
                               base_.snapshot.header().number));
  }

  // As the flows of a policy of their own: conditions of prefixes, and tables of flow keys.
  bool index_added_flows() {
    if (!has_new_flows_) return true;
    Policy added;
    added.lists = policy_.lists;
    for (size_t l = 0; l < added.lists.size(); l++) {
      auto content = std::make_shared<Entries>();
      content->flows = added_flows_[l];
      added.lists[l].content = std::move(content);
    }
    if (auto ok = index_flows(added, merged_); !ok) return rebuild(ok.error());
    return true;
  }

  // The base's shape that holds prefixes of this length: written out, where it is longer (plan/levels.h). Null: none.
  const ShapeView* shape_of_base(unsigned family, bool with_port, unsigned bits) const {
    const ShapeView* best = nullptr;
    for (const ShapeView& shape : base_.snapshot.shapes()) {
      const filter::KeyShape key = shape.shape;
      if (key.family != family || key.flow || key.with_port != with_port || key.addr_bits < bits) continue;
      if (shape.layout == WEIR_LAYOUT_BITMAP) return &shape;  // all of its lengths are there
      if (best == nullptr || key.addr_bits < best->shape.addr_bits) best = &shape;
    }
    return best;
  }

  template <class Addr>
  TouchedShape<Addr>& touched_shape(std::vector<TouchedShape<Addr>>& touched, bool with_port, unsigned bits) {
    constexpr uint8_t kFamily = sizeof(Addr) == sizeof(Ipv4) ? 4 : 6;
    const ShapeView* of_base = shape_of_base(kFamily, with_port, bits);
    filter::KeyShape shape = {.family = kFamily, .addr_bits = static_cast<uint8_t>(bits), .with_port = with_port};
    if (of_base != nullptr) {
      shape = of_base->shape;
    } else {
      const auto round_up = [&](auto& lengths) {
        for (const unsigned length : lengths) {
          if (length >= bits) return length;
        }
        return bits;
      };
      shape.addr_bits = static_cast<uint8_t>(kFamily == 4 ? round_up(kOwnLengthsV4) : round_up(kOwnLengthsV6));
    }
    for (TouchedShape<Addr>& known : touched) {
      if (known.shape == shape) return known;
    }
    return touched.emplace_back(TouchedShape<Addr>{shape, of_base, {}, {}});
  }

  template <class Addr, class Visit>
  bool expand(Addr address, unsigned bits, unsigned to_bits, Visit visit) {
    if (to_bits - bits > kMostExpandedBits) return too_many();
    const uint64_t n = uint64_t{1} << (to_bits - bits);
    n_touched_ += n;
    if (n_touched_ > most_keys_) return too_many();
    const Addr step = to_bits == 0 ? Addr{0} : static_cast<Addr>(Addr{1} << (kAddrBits<Addr> - to_bits));
    for (uint64_t i = 0; i < n; i++, address += step) visit(address);
    return true;
  }

  template <class Addr>
  bool touch(const std::vector<Entry<Addr>>& changes, std::vector<TouchedShape<Addr>>& touched) {
    bool is_small = true;
    for (const Entry<Addr>& entry : changes) {
      split_range(entry.first, entry.last, [&](Addr address, unsigned bits) {
        if (!is_small) return;
        TouchedShape<Addr>& shape = touched_shape(touched, entry.port != 0, bits);
        is_small = expand(address, bits, shape.shape.addr_bits, [&](Addr key) {
          shape.keys.push_back({key, entry.port});
        });
      });
      if (!is_small) return false;
    }
    return true;
  }

  // The conditions that added flows put on prefixes.
  template <class Addr>
  bool touch_flows(const MergedFamily<Addr>& merged, std::vector<TouchedShape<Addr>>& touched) {
    for (const auto* by_length : {&merged.any_port, &merged.one_port}) {
      for (unsigned bits = 0; bits < by_length->size(); bits++) {
        for (const RuledPrefix<Addr>& prefix : (*by_length)[bits]) {
          TouchedShape<Addr>& shape = touched_shape(touched, prefix.port != 0, bits);
          const bool is_small = expand(prefix.address, bits, shape.shape.addr_bits, [&](Addr key) {
            shape.keys.push_back({key, prefix.port});
            shape.added_flows.push_back({key, prefix.rule, prefix.port});
          });
          if (!is_small) return false;
        }
      }
    }
    return true;
  }

  // Everything of the lists that covers the whole key.
  template <class Addr>
  uint32_t rule_of_claims(filter::KeyShape shape, AddressKey<Addr> key) {
    const auto last = static_cast<Addr>(key.address | low_bits<Addr>(kAddrBits<Addr> - shape.addr_bits));
    weir_set source = {}, destination = {};
    expiring_.clear();
    for (unsigned l = 0; l < policy_.lists.size(); l++) {
      const Rows<Addr>& rows = rows_of<Addr>(policy_.lists[l]);
      visit_rows(rows, key.address, [&](size_t row) {
        if (rows.last_of(row) < last || rows.port[row] != key.port) return;
        const uint8_t directions = rows[row].sides();
        if (const uint32_t expires = rows.expires[row]; expires != kNever) {
          expiring_.push_back({l, directions, expires});
          return;
        }
        if ((directions & WEIR_AS_SOURCE) != 0) add_list(source, l);
        if ((directions & WEIR_AS_DESTINATION) != 0) add_list(destination, l);
      });
    }
    uint32_t rule = book().rule(source, destination);
    std::sort(expiring_.begin(), expiring_.end());
    for (size_t i = 0; i < expiring_.size(); i++) {  // of one list's, the last to expire counts
      const Expiring& one = expiring_[i];
      if (i + 1 < expiring_.size() && expiring_[i + 1].list == one.list &&
          expiring_[i + 1].directions == one.directions) {
        continue;
      }
      weir_residual condition = {};
      condition.asks = WEIR_ASKS_EXPIRES;
      condition.expires_unix_s = one.expires;
      rule = book().unite(rule, book().rule_if(condition, one.directions, one.list));
    }
    return rule;
  }

  // What the base's rule of a key says beyond addresses and time: the conditions of flows, which are all there still.
  // all: everything that it says.
  uint32_t rule_of_base(const ShapeView& shape, const filter::Key& key, bool all) {
    const SnapshotView& snapshot = base_.snapshot;
    const weir_rule& of_base = snapshot.rule(filter::find_rule(shape, key));
    uint32_t rule = all ? book().rule(snapshot.set(of_base.source_set), snapshot.set(of_base.destination_set)) : 0;
    const auto follow = [&](uint32_t chain, weir_direction direction) {
      snapshot.visit_chain(chain, [&](const weir_residual& residual) {
        if (!all && (residual.asks & ~unsigned{WEIR_ASKS_EXPIRES}) == 0) return;
        const weir_set& lists = snapshot.set(residual.set);
        for (unsigned l = 0; l < policy_.lists.size(); l++) {
          if (has_list(lists, l)) rule = book().unite(rule, book().rule_if(residual, direction, l));
        }
      });
    };
    follow(of_base.source_chain, WEIR_AS_SOURCE);
    follow(of_base.destination_chain, WEIR_AS_DESTINATION);
    return rule;
  }

  template <class Addr>
  bool make_tables(std::vector<TouchedShape<Addr>>& touched) {
    for (TouchedShape<Addr>& shape : touched) {
      std::sort(shape.keys.begin(), shape.keys.end());
      shape.keys.erase(std::unique(shape.keys.begin(), shape.keys.end()), shape.keys.end());
      std::sort(shape.added_flows.begin(), shape.added_flows.end());
      filter::KeyTable& table = new_table(shape.shape, shape.of_base);
      size_t flow = 0;
      for (const AddressKey<Addr>& key : shape.keys) {
        const filter::Key words = filter::make_key(shape.shape, key.address, key.port);
        uint32_t rule = rule_of_claims(shape.shape, key);
        if (shape.of_base != nullptr) rule = book().unite(rule, rule_of_base(*shape.of_base, words, false));
        for (; flow < shape.added_flows.size() && shape.added_flows[flow].address == key.address &&
               shape.added_flows[flow].port == key.port;
             flow++) {
          rule = book().unite(rule, shape.added_flows[flow].rule);
        }
        add_key(table, words, rule);
      }
    }
    return true;
  }

  bool make_flow_tables() {
    for (const FlowTable& added : merged_.flow_tables) {
      const filter::KeyShape shape = added.keys.shape;
      const ShapeView* of_base = filter::find_shape(base_.snapshot, shape);
      filter::KeyTable& table = new_table(shape, of_base);
      table.gate_side = of_base != nullptr ? of_base->gate_side : gate_side_of(shape);
      for (size_t k = 0; k < added.keys.rules.size(); k++) {
        filter::Key key = {};
        for (unsigned w = 0; w < filter::key_words(shape); w++) key.word[w] = added.keys.words[w][k];
        uint32_t rule = added.keys.rules[k];
        if (of_base != nullptr) rule = book().unite(rule, rule_of_base(*of_base, key, true));
        add_key(table, key, rule);
      }
    }
    return true;
  }

  // The side of which the keys of a flow shape tell more.
  static uint8_t gate_side_of(filter::KeyShape shape) {
    const bool by_destination =
        filter::leading_bits(shape, WEIR_SIDE_DESTINATION) > filter::leading_bits(shape, WEIR_SIDE_SOURCE);
    return by_destination ? WEIR_SIDE_DESTINATION : WEIR_SIDE_SOURCE;
  }

  filter::KeyTable& new_table(filter::KeyShape shape, const ShapeView* of_base) {
    filter::KeyTable& table = input_.tables.emplace_back();
    table.shape = shape;
    table.layout = WEIR_LAYOUT_LINE8;
    if (of_base != nullptr) table.asked = of_base->directions;
    return table;
  }

  // A rule without lists takes away what the base's has. Rules of tables are those of the book until finish(), which
  // gives them the numbers of a snapshot: one without lists is not the book's first there.
  void add_key(filter::KeyTable& table, const filter::Key& key, uint32_t rule) {
    for (unsigned w = 0; w < filter::key_words(table.shape); w++) table.words[w].push_back(key.word[w]);
    table.rules.push_back(rule);
    report_.keys++;
  }

  // The data plane joins the overlay's keys to the base's gates, and asks the overlay's where the base's are closed.
  // XDP asks the overlay's beside the base's. So they always have small tables: for the shortest keys, and for the
  // longest.
  bool choose_gates() {
    for (const unsigned family : {4u, 6u}) {
      for (const unsigned side : {WEIR_SIDE_SOURCE, WEIR_SIDE_DESTINATION}) {
        unsigned least = 64, most = 0;
        uint64_t keys = 0;
        for (const filter::KeyTable& table : input_.tables) {
          if (table.shape.family != family) continue;
          least = std::min(least, filter::leading_bits(table.shape, side));
          most = std::max(most, filter::leading_bits(table.shape, side));
          keys += table.rules.size();
        }
        if (keys == 0 || least == 0) continue;  // closed, or open
        constexpr uint64_t kBitsPerKey = 16, kPageBits = WEIR_PAGE_BYTES * 8, kPageWords = kPageBits / 64;
        const auto n_words = static_cast<uint32_t>((keys * kBitsPerKey + kPageBits - 1) / kPageBits * kPageWords);
        filter::GateChoice& choice = input_.gates[weir_gate_number(family, side)];
        choice.tables = {{static_cast<uint8_t>(least), n_words}};
        if (most > least) choice.tables.push_back({static_cast<uint8_t>(most), n_words});
        input_.xdp_gates[weir_gate_number(family, side)] = choice;
      }
    }
    return true;
  }

  bool finish() {
    if (book().longest_chain() > WEIR_MAX_CHAIN) return rebuild("too many conditions meet at one key");
    for (const unsigned family : {4u, 6u}) {
      size_t shapes = 0;
      for (const ShapeView& shape : base_.snapshot.shapes()) shapes += shape.shape.family == family;
      for (const filter::KeyTable& table : input_.tables) {
        shapes += table.shape.family == family && filter::find_shape(base_.snapshot, table.shape) == nullptr;
      }
      if (shapes > WEIR_MAX_SHAPES_PER_FAMILY) return rebuild("more key shapes than a family may have");
    }
    book().write(input_);
    // Rule 0 is a free slot: a key without lists has another one that says nothing.
    const auto nothing = static_cast<uint32_t>(input_.rules.size());
    input_.rules.push_back({});
    for (filter::KeyTable& table : input_.tables) {
      for (uint32_t& rule : table.rules) rule = rule == 0 ? nothing : rule;
    }
    return true;
  }

  RuleBook& book() { return merged_.book; }

  struct Expiring {
    unsigned list;
    uint8_t directions;
    uint32_t expires;
    auto operator<=>(const Expiring&) const = default;
  };

  const Policy& policy_;
  const OverlayBase& base_;
  uint64_t most_keys_ = 0, n_touched_ = 0;
  std::string why_;
  OverlayReport report_;
  std::vector<Entry<Ipv4>> changes_v4_;
  std::vector<Entry<Ipv6>> changes_v6_;
  std::vector<std::vector<Flow>> added_flows_;  // by list
  bool has_new_flows_ = false;
  Merged merged_;  // of the added flows; its book is that of all rules
  std::vector<TouchedShape<Ipv4>> v4_;
  std::vector<TouchedShape<Ipv6>> v6_;
  std::vector<Expiring> expiring_;
  filter::SnapshotInput input_;
};

}  // namespace

Result<Overlaid> compile_overlay(const Policy& policy, const OverlayBase& base, wire::Generation generation) {
  Overlaid overlaid;
  Clock::time_point begin = Clock::now();
  const auto finish_phase = [&](const char* name) {
    overlaid.overlay.phases.push_back({name, ms_since(begin)});
    begin = Clock::now();
  };
  if (generation.epoch != base.snapshot.header().epoch) {
    overlaid.needs_rebuild = "a new epoch has begun";
    return overlaid;
  }
  OverlayMaker maker(policy, base);
  const bool is_made = maker.run();
  overlaid.overlay = std::move(maker.report());
  if (!is_made) {
    overlaid.needs_rebuild = maker.why();
    return overlaid;
  }
  finish_phase("merge");

  Result<filter::SnapshotPlan> plan = filter::plan_snapshot(maker.input());
  if (!plan) return Error{plan.error()};
  weir_snapshot_header& header = plan->header;
  const weir_snapshot_header& below = base.snapshot.header();
  header.epoch = generation.epoch;
  header.number = generation.number;
  header.built_unix_s = static_cast<uint64_t>(unix_now());
  std::copy_n(below.secret, 2, header.secret);
  header.base_number = below.number;
  std::copy_n(base.digest.begin(), 2, header.base_digest);
  finish_phase("plan");

  Result<Draft> draft = make_draft(header.total_bytes);
  if (!draft) return draft.failure();
  if (auto built = filter::build_snapshot(maker.input(), *plan, draft->mapping.bytes()); !built) {
    overlaid.needs_rebuild = "with the base's secret a page of the overlay overflows: " + built.error();
    return overlaid;
  }
  finish_phase("build");

  const Result<filter::SnapshotView> view = filter::SnapshotView::open(draft->mapping.bytes());
  if (!view) return Error{"proof failed: " + view.error()};
  if (auto fits = filter::check_overlay(base.snapshot, base.digest, *view); !fits) {
    overlaid.needs_rebuild = fits.error();
    return overlaid;
  }
  const Changes changes = {maker.changes_v4(), maker.changes_v6(), maker.has_new_flows()};
  if (auto proof = prove_overlay(policy, {base.snapshot, &*view}, changes); !proof) return Error{proof.error()};
  overlaid.overlay.shapes = describe_filters(*view);
  finish_phase("prove");

  overlaid.compiled.generation = generation;
  overlaid.compiled.size_bytes = draft->mapping.size();
  Result<Sealed> sealed = seal(std::move(*draft));
  if (!sealed) return sealed.failure();
  overlaid.compiled.snapshot = std::move(sealed->fd);
  overlaid.compiled.digest = sealed->digest;
  finish_phase("seal");
  return overlaid;
}

}  // namespace weir::control
