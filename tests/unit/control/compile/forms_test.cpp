// The test follows an IPv4 entry with a port, an IPv6 prefix and a flow from the bytes of a file to the exact table. It
// checks each form on the way. Each function gets what the function before it gave, so a form that comes between two
// forms changes this test. The table in docs/develop/walks.md must name every form that is checked here.

#include <algorithm>
#include <fstream>
#include <regex>
#include <sstream>

#include "control/compile/plan/flow_index.h"
#include "control/compile/plan/plan.h"
#include "control/policy/feeds/entry_text.h"
#include "control/policy/feeds/reading.h"
#include "control/policy/model/columns.h"
#include "control/policy/read/feed_parts.h"
#include "control/policy/read/policy.h"
#include "filter/probe/dispatch.h"
#include "filter/probe/exact.h"
#include "tests/unit/control/compile/build_unproven.h"
#include "tests/unit/folder.h"

namespace weir::control {
namespace {

constexpr Ipv4 kHost = 0xcb007107;     // 203.0.113.7
constexpr Ipv4 kClient = 0xcb007109;   // 203.0.113.9
constexpr Ipv4 kServers = 0xc6336400;  // 198.51.100.0/24
constexpr Ipv6 kNetwork = Ipv6{0x20010db80007} << 80;

constexpr std::string_view kFeed = "# a feed\n203.0.113.7:443\n2001:db8:7::/48\n";
// Feeds have no flows.
constexpr const char* kPolicy =
    "version: 1\n"
    "lists:\n"
    "  - name: all\n"
    "    action: drop\n"
    "    entries:\n"
    "      - {src: 203.0.113.9, dst: 198.51.100.0/24, proto: tcp, dport: 8000-8010}\n";

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// A row of docs/develop/walks.md: | form | `type` | `file` | `maker` | `file` |
struct Form {
  std::string name, type, declared_in, maker, made_in;
};

std::vector<Form> forms_of_the_page() {
  std::istringstream page(text_of("docs/develop/walks.md"));
  const std::regex row(R"(\| ([^|]*[^| ]) \| `([^`]*)` \| `([^`]*)` \| `([^`]*)` \| `([^`]*)` \|)");
  std::vector<Form> forms;
  std::smatch cells;
  for (std::string line; std::getline(page, line);) {
    if (std::regex_match(line, cells, row)) forms.push_back({cells[1], cells[2], cells[3], cells[4], cells[5]});
  }
  return forms;
}

// The key's bit in the filter, and its rule in the exact table.
struct Found {
  bool may_be_there;
  uint32_t rule;
};

Found look_up(const filter::ShapeView& shape, const filter::Key& key) {
  const uint64_t* words[WEIR_MAX_KEY_WORDS];
  for (unsigned w = 0; w < WEIR_MAX_KEY_WORDS; w++) words[w] = &key.word[w];
  const filter::Kernels& scalar = *filter::all_kernels().back();
  uint64_t place = 0;
  const bool may_be_there = filter::filter_check(scalar, shape, words, 1, &place) != 0;
  const uint32_t in_buckets = filter::with_bucket_type(shape.shape, [&]<class Bucket>() {
    return filter::find_in_buckets(reinterpret_cast<const Bucket*>(shape.exact), shape.exact_buckets, key, place);
  });
  return {may_be_there, in_buckets};
}

}  // namespace

TEST_CASE("an entry has the forms that docs/develop/walks.md names, and no other") {
  std::vector<std::string> checked;

  const Folder folder;
  folder.write("feed.txt", std::string(kFeed));
  Result<FeedParts> file = FeedParts::open(folder / "feed.txt");
  REQUIRE(file);
  feeds::Reading reading(nullptr, {});
  ListDraft draft;
  REQUIRE(file->visit([&](std::string_view bytes) {
    CHECK(bytes == kFeed);
    reading.read(bytes, false, draft);
    return true;
  }));
  reading.read({}, true, draft);
  checked.emplace_back("bytes of a file");

  const Entry<Ipv4> host = {kHost, kHost, 2, 443, WEIR_AS_SOURCE, 1};
  const Entry<Ipv6> network = {kNetwork, kNetwork | low_bits<Ipv6>(80), 3, 0, WEIR_AS_SOURCE, 1};
  const EntryText parsed = parse_entry("203.0.113.7:443");
  const Entry<Ipv4>& of_text = std::get<ParsedEntry<Ipv4>>(parsed);
  CHECK(of_text == Entry<Ipv4>{kHost, kHost, 0, 443, 0, 0});
  CHECK(draft.v4 == std::vector{host});
  CHECK(draft.v6 == std::vector{network});
  Diagnostics diagnostics;
  std::optional<Policy> policy = parse_policy("weir.yaml", kPolicy, diagnostics);
  INFO(format(diagnostics));
  REQUIRE(policy);
  draft.flows = policy->lists[0].flows();
  REQUIRE(draft.flows.size() == 1);
  CHECK(draft.flows[0].src == AddressRange{kClient, kClient});
  CHECK(draft.flows[0].dst == AddressRange{kServers, kServers | 0xff});
  CHECK(draft.flows[0].line == 6);
  checked.emplace_back("parsed entry");

  List& list = policy->lists[0];
  list.content = make_entries(draft);
  REQUIRE(list.v4().size() == 1);
  CHECK(list.v4()[0] == host);
  REQUIRE(list.v6().size() == 1);
  CHECK(list.v6()[0] == network);
  CHECK(list.flows() == draft.flows);
  checked.emplace_back("row of sorted columns");

  Merged merged = merge(*policy);
  REQUIRE(index_flows(*policy, merged));
  const auto& hosts = merged.v4.one_port[32];
  const auto& networks = merged.v6.any_port[48];
  const auto& clients = merged.v4.any_port[32];  // the flow stands under its source
  REQUIRE(hosts.size() == 1);
  REQUIRE(networks.size() == 1);
  REQUIRE(clients.size() == 1);
  CHECK(hosts[0].address == kHost);
  CHECK(hosts[0].port == 443);
  CHECK(networks[0].address == kNetwork);
  CHECK(clients[0].address == kClient);
  CHECK(has_list(merged.book.sets()[merged.book.rules()[hosts[0].rule].source_set], 0));
  CHECK(hosts[0].rule == networks[0].rule);
  CHECK(merged.book.chain_length(merged.book.rules()[clients[0].rule].source_chain) == 1);
  checked.emplace_back("prefix with its rule");

  const Result<Planned> planned = plan(merged, *policy);
  REQUIRE(planned);
  const filter::KeyShape of_host = {.family = 4, .addr_bits = 32, .with_port = true};
  const filter::KeyShape of_network = {.family = 6, .addr_bits = 48};
  const filter::KeyShape of_client = {.family = 4, .addr_bits = 32};
  const struct {
    filter::KeyShape shape;
    filter::Key key;
    uint64_t address;  // as a gate is asked
  } keys[] = {{of_host, filter::make_key(of_host, kHost, 443), uint64_t{kHost} << 32},
              {of_network, filter::make_key(of_network, kNetwork), static_cast<uint64_t>(kNetwork >> 64)},
              {of_client, filter::make_key(of_client, kClient), uint64_t{kClient} << 32}};
  CHECK(planned->input.tables.size() == std::size(keys));
  for (const auto& [shape, key, address] : keys) {
    const auto table = std::find_if(planned->input.tables.begin(), planned->input.tables.end(),
                                    [&, wanted = shape](const auto& one) { return one.shape == wanted; });
    REQUIRE(table != planned->input.tables.end());
    REQUIRE(table->rules.size() == 1);
    for (unsigned w = 0; w < filter::key_words(shape); w++) CHECK(table->words[w] == std::vector{key.word[w]});
  }
  checked.emplace_back("key");

  const BuiltSnapshot snapshot(planned->layout.header.total_bytes);
  REQUIRE(filter::build_snapshot(planned->input, planned->layout, snapshot.bytes()));
  const filter::SnapshotView view = snapshot.view();
  const auto of_shape = [&](filter::KeyShape wanted) {
    const auto found =
        std::find_if(view.shapes().begin(), view.shapes().end(), [&](const auto& one) { return one.shape == wanted; });
    REQUIRE(found != view.shapes().end());
    return *found;
  };
  for (const auto& [shape, key, address] : keys) {
    CHECK(look_up(of_shape(shape), key).may_be_there);
    CHECK(filter::passes_gate(view.gate(shape.family, WEIR_SIDE_SOURCE), address));
    CHECK_FALSE(filter::passes_gate(view.gate(shape.family, WEIR_SIDE_SOURCE), ~address));
  }
  checked.emplace_back("bits and gates");

  for (const auto& [shape, key, address] : keys) {
    const uint32_t rule = look_up(of_shape(shape), key).rule;
    REQUIRE(rule != 0);
    const bool is_flow = shape == of_client;
    const weir_rule& lists = view.rule(rule);
    CHECK(has_list(view.set(is_flow ? view.chain(lists.source_chain)->set : lists.source_set), 0));
    if (is_flow) CHECK(view.chain(lists.source_chain)->dport.last == 8010);
    filter::Key other = key;
    other.word[0]++;
    CHECK(look_up(of_shape(shape), other).rule == 0);
  }
  checked.emplace_back("bucket of the exact table");

  std::vector<std::string> named;
  for (const Form& form : forms_of_the_page()) {
    INFO(form.name);
    named.push_back(form.name);
    CHECK(std::regex_search(text_of(form.declared_in), std::regex("(struct|class) " + form.type + " ")));
    CHECK(std::regex_search(text_of(form.made_in), std::regex("[ :]" + form.maker + "\\(")));
  }
  CHECK(named == checked);
}

}  // namespace weir::control
