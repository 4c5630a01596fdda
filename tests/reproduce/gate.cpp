// What a gate costs and saves: ns of a stranger by the size of the gate, with the lookups behind it, beside the lookups
// alone, a bitmap of hashes of the same bytes in its place, and a filter that is larger by as much. And where a gate
// loses: lists that lie anywhere, strangers who live next to listed hosts. One list of IPv4 hosts, asked about sources.

#include "tests/reproduce/gate.h"

#include "control/compile/plan/gates.h"
#include "tests/bench/core_clock.h"
#include "tests/reproduce/gate_data.h"

namespace weir::reproduce {
namespace {

struct Effort {
  size_t strangers;
  unsigned repetitions;
};

// What is asked about one list of hosts, at one width.
class Rivals {
  static uint64_t none(const uint64_t*, unsigned) { return 0; }
  static uint64_t all(const uint64_t*, unsigned n) { return (uint64_t{1} << n) - 1; }

  auto asks_gate() const {
    return [this, &kernels = best_kernels()](const uint64_t* addresses, unsigned n) {
      return gate_.ask(kernels, addresses, n);
    };
  }
  auto asks_hashed() const {
    return [this, ask = best_hashed_v4()](const uint64_t* addresses, unsigned n) {
      return hashed_.ask(ask, addresses, n);
    };
  }

 public:
  Rivals(const filter::SnapshotInput& input, std::span<const uint32_t> hosts, unsigned width)
      : hosts_(hosts),
        filter_(input),
        gate_(input, width),
        hashed_(width),
        larger_(filter_, input, uint64_t{1} << width >> 3) {
    hashed_.mark(hosts);
    check_members();
  }

  // ns of each of these strangers, of every way; and the shares of them that go on.
  Json measure(std::span<const uint32_t> strangers, const Effort& effort, bool watched = false) const {
    LookupLoop loop(filter_.shape()), loop_larger(larger_.shape());
    const auto gate = asks_gate();
    const auto hashed = asks_hashed();
    struct Way {
      const char* name;
      std::function<uint64_t(std::span<const uint32_t>)> found;
      std::vector<double> ns = {};
    };
    std::vector<Way> ways = {
        {"addresses", [&](auto sources) { return loop.run(sources, none).found; }},
        {"filter", [&](auto sources) { return loop.run(sources, all).found; }},
        {"gate", [&](auto sources) { return loop.run(sources, gate).found; }},
        {"hashed", [&](auto sources) { return loop.run(sources, hashed).found; }},
        {"larger", [&](auto sources) { return loop_larger.run(sources, all).found; }},
    };
    if (watched) {
      ways.push_back({"watched", [&](auto sources) {
                        dataplane::GateWatch watch;
                        return loop.run(sources, gate, &watch).found;
                      }});
    }
    // A repetition runs all of them. What the one before left in the caches is not the next one's: an eighth of the
    // strangers comes first, and does not count.
    const std::span warming = strangers.first(strangers.size() / 8);
    for (unsigned r = 0; r < effort.repetitions; r++) {
      for (Way& way : ways) {
        uint64_t found = way.found(warming);
        const double start = thread_ns();
        found += way.found(strangers);
        way.ns.push_back((thread_ns() - start) / static_cast<double>(strangers.size()));
        if (found != 0) give_up(std::string(way.name) + ": strangers are found");
      }
    }
    const auto share = [&](auto ask) {
      return static_cast<double>(loop.run(strangers, ask).went_on) / static_cast<double>(strangers.size());
    };
    Json row = {{"gate_share", share(gate)}, {"hashed_share", share(hashed)}, {"ns", Json::object()}};
    for (Way& way : ways) {
      row["ns"][way.name] = median(way.ns);
      row["fastest_ns"][way.name] = *std::min_element(way.ns.begin(), way.ns.end());
    }
    return row;
  }

  Json sizes(unsigned width) const {
    return {{"hosts", hosts_.size()},
            {"width", width},
            {"gate_bytes", uint64_t{1} << width >> 3},
            {"filter_bytes", filter_.header().filter.size_bytes},
            {"larger_bytes", larger_.bytes()},
            {"exact_bytes", filter_.header().exact.size_bytes},
            {"filter_rate", filter::line8_fpr(filter_.header().n_keys, filter_.header().filter_lines)},
            {"larger_rate", larger_.rate()},
            {"gate_set_share", gate_.set_share()},
            {"hashed_set_share", hashed_.set_share()}};
  }

 private:
  // That whoever is on the list is found, whatever stands before.
  void check_members() const {
    std::vector<uint32_t> members;
    for (const uint32_t host : hosts_) members.push_back(__builtin_bswap32(host));
    while (members.size() % LookupLoop::kReceived != 0) members.push_back(members.back());
    LookupLoop loop(filter_.shape()), loop_larger(larger_.shape());
    dataplane::GateWatch watch;
    const std::pair<const char*, uint64_t> found[] = {{"filter", loop.run(members, all).found},
                                                      {"gate", loop.run(members, asks_gate()).found},
                                                      {"watched", loop.run(members, asks_gate(), &watch).found},
                                                      {"hashed", loop.run(members, asks_hashed()).found},
                                                      {"larger", loop_larger.run(members, all).found}};
    for (const auto& [way, n] : found) {
      if (n != members.size()) give_up(std::string(way) + ": members are missing");
    }
  }

  std::span<const uint32_t> hosts_;
  Built filter_;
  DirectBits gate_;
  HashedBits hashed_;
  LargerFilter larger_;
};

// The share that random lists let through, by what is counted, by asking, and by the formula.
Json random_lists(bool quick) {
  Json rows = Json::array();
  const std::vector<uint64_t> sizes = quick ? std::vector<uint64_t>{1000, 100'000}
                                            : std::vector<uint64_t>{1000, 10'000, 100'000, 1'000'000, 10'000'000};
  const auto& kernels = best_kernels();
  for (const uint64_t n : sizes) {
    const std::vector<uint32_t> hosts = random_hosts(n, n);
    const filter::SnapshotInput input = hosts_input(hosts);
    const std::vector<uint32_t> strangers = strangers_near(hosts, 0, quick ? 1u << 18 : 1u << 20, 1);
    for (unsigned width = kMinWidth; width <= kMaxWidth; width += 2) {
      const DirectBits gate(input, width);
      uint64_t through = 0;
      for (size_t at = 0; at + filter::kMaxBatch <= strangers.size(); at += filter::kMaxBatch) {
        alignas(64) uint64_t addresses[filter::kMaxBatch + 8] = {};
        std::copy_n(strangers.begin() + static_cast<ptrdiff_t>(at), filter::kMaxBatch, addresses);
        through += static_cast<uint64_t>(std::popcount(gate.ask(kernels, addresses, filter::kMaxBatch)));
      }
      rows.push_back({{"hosts", n},
                      {"width", width},
                      {"formula", random_share(static_cast<double>(n), width)},
                      {"set_share", gate.set_share()},
                      {"pass_share", static_cast<double>(through) / static_cast<double>(strangers.size())}});
    }
  }
  return rows;
}

// Random lists, strangers from anywhere: the gate's size alone changes.
Json by_level(const Effort& effort, bool quick) {
  Json rows = Json::array();
  const std::pair<uint64_t, unsigned> grid[] = {{1000, 16}, {100'000, 20}, {1'000'000, 22}, {10'000'000, 24}};
  for (const auto& [n, narrowest] : grid) {
    if (quick && n > 100'000) break;
    const std::vector<uint32_t> hosts = random_hosts(n, n);
    const filter::SnapshotInput input = hosts_input(hosts);
    const std::vector<uint32_t> strangers = strangers_near(hosts, 0, effort.strangers, 1);
    for (unsigned width = narrowest; width <= kMaxWidth; width += quick ? 4 : 2) {
      const Rivals rivals(input, hosts, width);
      Json row = rivals.sizes(width);
      row.update(rivals.measure(strangers, effort));
      rows.push_back(std::move(row));
    }
    say("gate: " + std::to_string(n) + " random hosts are measured");
  }
  return rows;
}

// The planner's width for hosts alone; 0: it would build no gate.
unsigned chosen_width(filter::SnapshotInput input) {
  constexpr double kNoLimit = 1e18;
  control::choose_gates(input, kNoLimit);
  const auto& tables = input.gates[weir_gate_number(4, WEIR_SIDE_SOURCE)].tables;
  return tables.empty() ? 0 : tables[0].prefix_bits;
}

// The hosts of a real list, in order. Empty: it is not there.
std::vector<uint32_t> real_hosts(const std::string& name) {
  std::vector<uint32_t> hosts;
  if (data_folder().empty()) return hosts;
  const std::optional<PlannedList> list = plan_list(data_folder() + "/lists/" + name + ".yaml");
  if (!list) return hosts;
  for (const filter::KeyTable& table : list->planned.input.tables) {
    if (table.shape != filter::KeyShape{4, 32, false}) continue;
    for (const uint64_t key : table.words[0]) hosts.push_back(__builtin_bswap32(static_cast<uint32_t>(key)));
  }
  std::sort(hosts.begin(), hosts.end());
  return hosts;
}

// Those of a capture's sources that are not listed, again and again.
std::vector<uint32_t> captured_strangers(const std::string& name, std::span<const uint32_t> hosts, size_t n) {
  std::vector<uint32_t> strangers;
  for (const Capture& capture : read_captures()) {
    if (capture.name != name) continue;
    for (const uint32_t source : capture.v4_sources) {
      if (!std::binary_search(hosts.begin(), hosts.end(), __builtin_bswap32(source))) strangers.push_back(source);
    }
  }
  if (strangers.empty()) return strangers;
  for (size_t at = 0; strangers.size() < n; at++) strangers.push_back(strangers[at]);
  strangers.resize(n);
  return strangers;
}

constexpr const char* kRealList = "combined-v4";
constexpr const char* kRealCapture = "mix_shared";

// A real list beside a random one of as many hosts; strangers ever nearer.
Json by_neighbourhood(const Effort& effort) {
  Json rows = Json::array();
  const std::vector<uint32_t> real = real_hosts(kRealList);
  const size_t n = real.empty() ? 669'000 : real.size();
  const std::vector<uint32_t> random = random_hosts(n, 7);
  for (const auto& [list, hosts] : {std::pair<const char*, const std::vector<uint32_t>&>{kRealList, real},
                                    std::pair<const char*, const std::vector<uint32_t>&>{"random", random}}) {
    if (hosts.empty()) continue;
    const filter::SnapshotInput input = hosts_input(hosts);
    const unsigned width = chosen_width(input);
    if (width == 0) give_up("the planner builds no gate for this list");
    const Rivals rivals(input, hosts, width);
    const auto add = [&, list = list](const std::string& who, std::span<const uint32_t> strangers) {
      if (strangers.empty()) return;
      Json row = rivals.sizes(width);
      row["list"] = list, row["strangers"] = who;
      row.update(rivals.measure(strangers, effort, true));
      rows.push_back(std::move(row));
    };
    add("anywhere", strangers_near(hosts, 0, effort.strangers, 1));
    add("same /8", strangers_near(hosts, 8, effort.strangers, 2));
    add("same /16", strangers_near(hosts, 16, effort.strangers, 3));
    add("same /24", strangers_near(hosts, 24, effort.strangers, 4));
    add("same /28", strangers_near(hosts, 28, effort.strangers, 5));
    if (!data_folder().empty()) add(kRealCapture, captured_strangers(kRealCapture, hosts, effort.strangers));
    say(std::string("gate: neighbours of ") + list + " are measured");
  }
  return rows;
}

// How many of the strangers must live next door until the gate costs more than it saves.
Json by_share(const Effort& effort) {
  std::vector<uint32_t> hosts = real_hosts(kRealList);
  const char* list = hosts.empty() ? "random" : kRealList;
  if (hosts.empty()) hosts = random_hosts(669'000, 7);
  const filter::SnapshotInput input = hosts_input(hosts);
  const unsigned width = chosen_width(input);
  const Rivals rivals(input, hosts, width);
  const std::vector<uint32_t> anywhere = strangers_near(hosts, 0, effort.strangers, 1),
                              next_door = strangers_near(hosts, 28, effort.strangers, 5);
  Json rows = Json::array();
  for (const unsigned percent : {0u, 2u, 5u, 10u, 20u, 30u, 40u, 50u, 60u, 75u, 90u, 100u}) {
    std::vector<uint32_t> mixed(effort.strangers);
    for (size_t i = 0; i < mixed.size(); i++) {
      mixed[i] = reduce(scatter(scatter(9) + i), 100) < percent ? next_door[i] : anywhere[i];
    }
    Json row = {{"list", list}, {"width", width}, {"next_door_percent", percent}};
    row.update(rivals.measure(mixed, effort, true));
    rows.push_back(std::move(row));
  }
  say("gate: mixtures of strangers are measured");
  return rows;
}

Json run(bool quick) {
  const Effort effort = quick ? Effort{1 << 17, 3} : Effort{1 << 21, 7};
  return {{"ghz", 1 / bench::cycle_ns(50)},
          {"kernels", std::string(best_kernels().name)},
          {"strangers", effort.strangers},
          {"repetitions", effort.repetitions},
          {"random_lists", random_lists(quick)},
          {"by_level", by_level(effort, quick)},
          {"by_neighbourhood", by_neighbourhood(effort)},
          {"by_share", by_share(effort)}};
}

}  // namespace
}  // namespace weir::reproduce

int main(int argc, char** argv) {
  using namespace weir::reproduce;
  std::printf("%s\n", run(is_quick(argc, argv)).dump(1).c_str());
}
