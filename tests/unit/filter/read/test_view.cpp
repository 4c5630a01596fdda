#include <cstddef>
#include <functional>

#include "filter/build/networks.h"
#include "filter/format/buckets.h"
#include "tests/unit/filter/lookups.h"
#include "tests/unit/filter/support.h"

using namespace weir::filter;
using namespace weir::filter::test;
using Catch::Matchers::ContainsSubstring;

namespace {

std::string open_error(const Buffer& buffer) {
  const auto view = SnapshotView::open(buffer.bytes());
  return view ? "accepted" : view.error();
}

// The error for a good snapshot that was changed in one place.
std::string error_after(const std::function<void(Buffer&, weir_snapshot_header&)>& change) {
  static const Buffer good = build(full_input(50, 20));
  Buffer damaged(good.bytes());
  change(damaged, damaged.header());
  return open_error(damaged);
}

weir_shape* find_shape(weir_snapshot_header& header, KeyShape wanted) {
  for (weir_shape& shape : header.shapes) {
    if (shape_of(shape) == wanted) return &shape;
  }
  return nullptr;
}

constexpr KeyShape kNetworks = {4, 24, false};

}  // namespace

TEST_CASE("a good snapshot opens, wherever it lies") {
  const Buffer good = build(full_input(200, 21));
  const SnapshotView view = test::open(good);
  uint64_t line8 = 0;
  for (const ShapeView& shape : view.shapes()) line8 += shape.layout == WEIR_LAYOUT_LINE8;
  REQUIRE(line8 == kShapes.size() - 1);

  Buffer shifted(good.bytes().size() + 64);
  memcpy(shifted.bytes().data() + 64, good.bytes().data(), good.bytes().size());
  REQUIRE(SnapshotView::open(shifted.bytes().subspan(64)));
  memmove(shifted.bytes().data() + 8, good.bytes().data(), good.bytes().size());
  const auto unaligned = SnapshotView::open(shifted.bytes().subspan(8, good.bytes().size()));
  REQUIRE_FALSE(unaligned);
  REQUIRE_THAT(unaligned.error(), ContainsSubstring("not a multiple of 64"));
}

TEST_CASE("prefetching is for filters that outgrow L2") {
  SnapshotInput input = empty_input();
  Random random(22);
  input.tables.push_back(random_table({4, 32, false}, 1000, 4, random));
  input.tables.push_back(random_table({6, 128, false}, 1000, 4, random));
  input.tables[1].false_positive_rate = 1e-9;  // about 230 bits a key
  const Buffer small = build(input);
  REQUIRE_FALSE(test::open(small).shapes()[0].prefetch);
  REQUIRE_FALSE(test::open(small).shapes()[1].prefetch);

  // A filter of 64 MiB, by its header alone: larger than any L2.
  Buffer large((1 << 26) + (1 << 20));
  weir_snapshot_header& header = large.header();
  header = plan_snapshot(empty_input())->header;
  const uint64_t end = header.residuals.offset + WEIR_PAGE_BYTES;
  memset(header.pass_lists, 0, 3 * sizeof header.pass_lists);
  header.n_lists = 0;
  header.lists.size_bytes = 0;
  header.n_sets = header.n_rules = 1;
  header.sets.size_bytes = sizeof(weir_set);
  header.rules.size_bytes = sizeof(weir_rule);
  *large.at<weir_residual>(header.residuals) = no_residual();
  header.n_shapes = 1;
  header.shapes[0] = {.family = 4,
                      .addr_bits = 32,
                      .with_port = 0,
                      .layout = WEIR_LAYOUT_LINE8,
                      .directions = 0,
                      .k = 8,
                      .flow = 0,
                      .destination_bits = 0,
                      .flow_fields = 0,
                      .gate_side = 0,
                      .reserved = {},
                      .n_keys = 0,
                      .filter_lines = 1 << 20,
                      .exact_buckets = 64,
                      .filter = {end, 1 << 26},
                      .exact = {end + (1 << 26), 4096},
                      .chunks = {}};
  header.total_bytes = end + (1 << 26) + 4096;
  const auto view = SnapshotView::open(large.bytes().first(header.total_bytes));
  INFO((view ? "" : view.error()));
  REQUIRE(view);
  REQUIRE(view->shapes()[0].prefetch);
}

TEST_CASE("damage to the header is named") {
  using B = Buffer&;
  using H = weir_snapshot_header&;
  CHECK(error_after([](B, H) {}) == "accepted");
  CHECK_THAT(error_after([](B, H h) { h.magic++; }), ContainsSubstring("not a weir snapshot"));
  CHECK(error_after([](B, H h) { h.version = 2; }) ==
        "snapshot: version is 2: this program reads version 10 and does not guess");
  CHECK_THAT(error_after([](B, H h) { h.header_bytes--; }), ContainsSubstring("header_bytes is 3479"));
  CHECK_THAT(error_after([](B, H h) { h.total_bytes += 4096; }), ContainsSubstring("total_bytes"));
  CHECK_THAT(error_after([](B, H h) { h.base_digest[1] = 1; }), ContainsSubstring("base_digest is not 0"));
  CHECK_THAT(error_after([](B, H h) { h.base_number = h.number; }), ContainsSubstring("base_number is"));
  CHECK_THAT(error_after([](B, H h) { h.default_action = 2; }), ContainsSubstring("default_action is 2"));
  CHECK_THAT(error_after([](B, H h) { h.unparsed_action = 255; }), ContainsSubstring("unparsed_action is 255"));
  CHECK_THAT(error_after([](B, H h) { h.reserved[4] = 1; }), ContainsSubstring("reserved"));
  CHECK_THAT(error_after([](B, H h) { h.n_lists = 257; }), ContainsSubstring("n_lists is 257: at most 256"));
  CHECK_THAT(error_after([](B, H h) { h.n_lists = 4; }), ContainsSubstring("lists.size_bytes is 240: must be 320"));
  CHECK_THAT(error_after([](B, H h) { h.n_shapes = 33; }), ContainsSubstring("n_shapes is 33"));
  CHECK_THAT(error_after([](B, H h) { h.n_shapes--; }), ContainsSubstring("shapes behind that number must be 0"));
  CHECK_THAT(error_after([](B, H h) { h.n_sets = 0; }), ContainsSubstring("n_sets is 0"));
  CHECK_THAT(error_after([](B, H h) { h.n_rules = UINT32_MAX; }), ContainsSubstring("rules.size_bytes"));
  CHECK_THAT(error_after([](B, H h) { h.pass_lists[0] = 0; }), ContainsSubstring("pass_lists[0] is 0: does not agree"));
  CHECK_THAT(error_after([](B, H h) { h.drop_lists[3] = 1; }), ContainsSubstring("drop_lists[3] is 1: does not agree"));
  CHECK_THAT(error_after([](B, H h) { h.monitor_lists[0] |= 2; }),
             ContainsSubstring("monitor_lists[0] is 6: does not agree"));
}

TEST_CASE("damage to a section is named") {
  using B = Buffer&;
  using H = weir_snapshot_header&;
  CHECK_THAT(error_after([](B, H h) { h.lists.offset = 0; }), ContainsSubstring("lists.offset is 0: overlaps"));
  CHECK_THAT(error_after([](B, H h) { h.sets.offset = h.lists.offset; }),
             ContainsSubstring("sets.offset is 4096: overlaps"));
  CHECK_THAT(error_after([](B, H h) { h.sets.offset += 64; }), ContainsSubstring("not a multiple of 4096"));
  CHECK_THAT(error_after([](B, H h) { h.rules.offset = ~uint64_t{4095}; }), ContainsSubstring("rules.offset"));
  CHECK_THAT(error_after([](B, H h) { h.rules.size_bytes = ~uint64_t{0} - h.rules.offset + 1; }),
             ContainsSubstring("rules.size_bytes"));
  CHECK_THAT(error_after([](B, H h) { h.rules.size_bytes = 1; }),
             ContainsSubstring("rules.size_bytes is 1: must be 64"));
  CHECK_THAT(error_after([](B, H h) { h.shapes[h.n_shapes - 1].exact.size_bytes -= 4096; }),
             ContainsSubstring("exact.size_bytes"));
  CHECK_THAT(error_after([](B, H h) { h.rules.size_bytes += 16; }),
             ContainsSubstring("rules.size_bytes is 80: must be 64"));
}

TEST_CASE("damage to lists, sets and rules is named") {
  using B = Buffer&;
  using H = weir_snapshot_header&;
  const auto list = [](B b, H h, unsigned i) -> weir_list& { return b.at<weir_list>(h.lists)[i]; };
  CHECK_THAT(error_after([&](B b, H h) { list(b, h, 0).name[0] = ' '; }), ContainsSubstring("lists[0].name"));
  CHECK_THAT(error_after([&](B b, H h) { list(b, h, 0).name[0] = 0; }), ContainsSubstring("lists[0].name"));
  CHECK_THAT(error_after([&](B b, H h) { list(b, h, 0).name[63] = 'x'; }), ContainsSubstring("not padded"));
  CHECK_THAT(error_after([&](B b, H h) { memset(list(b, h, 1).name, 'a', 64); }), ContainsSubstring("lists[1].name"));
  CHECK_THAT(error_after([&](B b, H h) { memcpy(list(b, h, 2).name, list(b, h, 0).name, 64); }),
             ContainsSubstring("lists[2].name is that of lists[0] too"));
  CHECK_THAT(error_after([&](B b, H h) { list(b, h, 1).action = 2; }), ContainsSubstring("lists[1].action is 2"));
  CHECK_THAT(error_after([&](B b, H h) { list(b, h, 1).mode = 2; }), ContainsSubstring("lists[1].mode is 2"));
  CHECK_THAT(error_after([&](B b, H h) { list(b, h, 0).mode = 1; }), ContainsSubstring("only drop lists"));
  CHECK_THAT(error_after([&](B b, H h) { list(b, h, 0).reserved[3] = 1; }), ContainsSubstring("lists[0].reserved"));
  CHECK_THAT(error_after([&](B b, H h) { list(b, h, 1).mode = 1; }), ContainsSubstring("drop_lists[0]"));
  CHECK_THAT(error_after([](B b, H h) { b.at<weir_set>(h.sets)[0].lists[2] = 1; }), ContainsSubstring("sets[0]"));
  CHECK_THAT(error_after([](B b, H h) { b.at<weir_set>(h.sets)[2].lists[0] = 8; }),
             ContainsSubstring("sets[2] names a list"));
  CHECK_THAT(error_after([](B b, H h) { b.at<weir_set>(h.sets)[2].lists[1] = 1; }),
             ContainsSubstring("sets[2] names a list"));
  CHECK_THAT(error_after([](B b, H h) { b.at<weir_set>(h.sets)[2].lists[0] = 0; }),
             ContainsSubstring("sets[2] is empty: only set 0 is"));
  CHECK_THAT(error_after([](B b, H h) { b.at<weir_rule>(h.rules)[0].source_set = 1; }), ContainsSubstring("rules[0]"));
  CHECK_THAT(error_after([](B b, H h) { b.at<weir_rule>(h.rules)[3].destination_set = 4; }),
             ContainsSubstring("rules[3] names a set"));
}

TEST_CASE("damage to residuals and flow shapes is named") {
  const Buffer good = build(flow_input(100, 21));
  const auto error = [&](auto damage) {
    Buffer damaged(good.bytes());
    weir_snapshot_header& header = damaged.header();
    damage(damaged.at<weir_residual>(header.residuals), damaged.at<weir_rule>(header.rules), header);
    const auto view = SnapshotView::open(damaged.bytes());
    return view ? std::string("accepted") : view.error();
  };
  using R = weir_residual*;
  using U = weir_rule*;
  using H = weir_snapshot_header&;
  CHECK(error([](R, U, H) {}) == "accepted");
  CHECK_THAT(error([](R r, U, H) { r[0].asks = 1; }), ContainsSubstring("residuals[0]: residual 0 is all zero"));
  CHECK_THAT(error([](R r, U, H) { r[1].set = 0; }), ContainsSubstring("residuals[1]: its set"));
  CHECK_THAT(error([](R r, U, H) { r[1].set = 4; }), ContainsSubstring("residuals[1]: its set"));
  CHECK_THAT(error([](R r, U, H) { r[2].last = 2; }), ContainsSubstring("residuals[2]: last is not 0 or 1"));
  CHECK_THAT(error([](R r, U, H) { r[3].last = 0; }), ContainsSubstring("does not end its chain"));
  CHECK_THAT(error([](R r, U, H) { r[3].asks = WEIR_ASKS + 1; }), ContainsSubstring("residuals[3]: it asks"));
  CHECK_THAT(error([](R r, U, H) { r[3].reserved[0] = 1; }), ContainsSubstring("residuals[3]: reserved"));
  CHECK_THAT(error([](R, U u, H) { u[2].source_chain = 2; }), ContainsSubstring("rules[2] names"));  // inside a chain
  CHECK_THAT(error([](R, U u, H) { u[2].destination_chain = 4; }), ContainsSubstring("rules[2] names"));
  CHECK_THAT(error([](R, U u, H) { u[0].source_chain = 1; }), ContainsSubstring("rules[0] names"));
  CHECK_THAT(error([](R, U u, H) { u[1].destination_chain = 1; }), ContainsSubstring("directions"));
  CHECK_THAT(error([](R, U, H h) { h.n_residuals = 0; }), ContainsSubstring("n_residuals is 0"));
  CHECK_THAT(error([](R, U, H h) { h.n_residuals = 3; }), ContainsSubstring("residuals.size_bytes"));
  CHECK_THAT(error([](R, U, H h) { h.tunnels = 128; }), ContainsSubstring("tunnels is 128"));
  CHECK_THAT(error([](R, U, H h) { h.reserved1 = 1; }), ContainsSubstring("reserved1"));
  CHECK_THAT(error([](R, U, H h) { h.shapes[0].flow = 2; }), ContainsSubstring("flow is 2"));
  CHECK_THAT(error([](R, U, H h) { h.shapes[0].flow_fields = 8; }), ContainsSubstring("no key has these fields"));
  CHECK_THAT(error([](R, U, H h) { h.shapes[0].destination_bits = 33; }), ContainsSubstring("no key has these fields"));
  CHECK_THAT(error([](R, U, H h) { h.shapes[0].with_port = 1; }), ContainsSubstring("no key has these fields"));
  CHECK_THAT(error([](R, U, H h) { h.shapes[0].directions = 3; }), ContainsSubstring("stands under source"));

  // A chain that is longer than any loop over it.
  SnapshotInput input = flow_input(10, 22);
  for (unsigned i = 0; i < WEIR_MAX_CHAIN - 2; i++)
    input.residuals.insert(input.residuals.begin() + 1, input.residuals[1]);
  input.rules[3].source_chain += WEIR_MAX_CHAIN - 2;
  CHECK(plan_snapshot(input));
  input.residuals.insert(input.residuals.begin() + 1, input.residuals[1]);
  const auto refused = plan_snapshot(input);
  REQUIRE_FALSE(refused);
  CHECK_THAT(refused.error(), ContainsSubstring("longer than 64"));
}

TEST_CASE("damage to shapes is named") {
  using B = Buffer&;
  using H = weir_snapshot_header&;
  CHECK_THAT(error_after([](B, H h) { h.shapes[0].family = 5; }), ContainsSubstring("shapes[0].family is 5"));
  CHECK_THAT(error_after([](B, H h) { h.shapes[0].family = 6; }),
             ContainsSubstring("shapes[1].family is 4: IPv4 comes first"));
  CHECK_THAT(error_after([](B, H h) { std::swap(h.shapes[0], h.shapes[6]); }), ContainsSubstring("IPv4 comes first"));
  CHECK_THAT(error_after([](B, H h) { h.shapes[0].addr_bits = 33; }), ContainsSubstring("shapes[0].addr_bits is 33"));
  CHECK_THAT(error_after([](B, H h) { h.shapes[6].addr_bits = 129; }), ContainsSubstring("shapes[6].addr_bits is 129"));
  CHECK_THAT(error_after([](B, H h) { h.shapes[0].with_port = 2; }), ContainsSubstring("with_port is 2"));
  CHECK_THAT(error_after([](B, H h) { h.shapes[0].layout = 7; }), ContainsSubstring("layout is 7"));
  CHECK_THAT(error_after([](B, H h) { h.shapes[0].layout = WEIR_LAYOUTS; }), ContainsSubstring("layout is 6"));
  CHECK_THAT(error_after([](B, H h) { h.shapes[0].k = 9; }), ContainsSubstring("line8 has no keys of so many bits"));
  CHECK_THAT(error_after([](B, H h) { h.shapes[0].layout = WEIR_LAYOUT_BITMAP, h.shapes[0].k = 1; }),
             ContainsSubstring("a bitmap is for"));
  CHECK_THAT(error_after([](B, H h) { h.shapes[0].directions = 4; }), ContainsSubstring("directions is 4"));
  CHECK_THAT(error_after([](B, H h) { h.shapes[0].directions = 1; }), ContainsSubstring("lists on sides 3"));
  CHECK_THAT(error_after([](B, H h) { find_shape(h, kNetworks)->directions = 2; }),
             ContainsSubstring("lists on sides 3"));
  CHECK_THAT(error_after([](B, H h) { h.shapes[0].reserved[1] = 1; }), ContainsSubstring("reserved"));
  CHECK_THAT(error_after([](B, H h) { h.shapes[0].n_keys = ~uint64_t{0}; }), ContainsSubstring("its table holds 50"));
  CHECK_THAT(error_after([](B, H h) { h.shapes[0].n_keys--; }), ContainsSubstring("n_keys is 49: its table holds 50"));
  CHECK_THAT(error_after([](B, H h) { h.shapes[0].filter_lines = 0; }), ContainsSubstring("filter_lines is 0"));
  CHECK_THAT(error_after([](B, H h) { h.shapes[0].filter_lines += 1; }), ContainsSubstring("filter.size_bytes"));
  CHECK_THAT(error_after([](B, H h) { h.shapes[0].exact_buckets = 0; }), ContainsSubstring("exact_buckets is 0"));
  CHECK_THAT(error_after([](B, H h) { h.shapes[0].exact_buckets -= 1; }), ContainsSubstring("multiple of 64"));
  CHECK_THAT(error_after([](B, H h) { h.shapes[0].exact_buckets += 64; }), ContainsSubstring("exact.size_bytes"));
  CHECK_THAT(error_after([](B, H h) { h.shapes[0].chunks.size_bytes = 1024; }), ContainsSubstring("chunks"));
  CHECK_THAT(error_after([](B, H h) {
               weir_shape& spare = h.shapes[h.n_shapes];
               spare.n_keys = 1;
             }),
             ContainsSubstring("must be 0"));
  CHECK_THAT(error_after([](B, H h) {
               h.shapes[3].addr_bits = h.shapes[4].addr_bits;
               h.shapes[3].with_port = 0;
               h.shapes[4].with_port = 0;
             }),
             ContainsSubstring("shapes[4]"));
  CHECK_THAT(error_after([](B b, H h) { b.at<weir_bucket_v4>(h.shapes[0].exact)[63].rule[6] = 4; }),
             ContainsSubstring("bucket 63: rule is 4: not there"));
  CHECK_THAT(error_after([](B b, H h) { b.at<weir_bucket_v4>(h.shapes[0].exact)[7].reserved = 4; }),
             ContainsSubstring("reserved is 4"));
}

TEST_CASE("damage to a bitmap is named") {
  using B = Buffer&;
  using H = weir_snapshot_header&;
  const auto shape = [](H h) -> weir_shape& { return *find_shape(h, kNetworks); };
  CHECK_THAT(error_after([&](B, H h) { shape(h).filter_lines++; }), ContainsSubstring("filter_lines"));
  CHECK_THAT(error_after([&](B, H h) { shape(h).n_keys++; }),
             ContainsSubstring("n_keys is 66495: its bitmap has 66494"));
  CHECK_THAT(error_after([&](B, H h) { shape(h).exact_buckets = 64; }), ContainsSubstring("exact_buckets is 64"));
  CHECK_THAT(error_after([&](B, H h) { shape(h).filter.size_bytes -= 64; }), ContainsSubstring("filter.size_bytes"));
  CHECK_THAT(error_after([&](B, H h) { shape(h).exact.size_bytes -= 4; }), ContainsSubstring("exact.size_bytes"));
  CHECK_THAT(error_after([&](B, H h) { shape(h).chunks.size_bytes = 0; }), ContainsSubstring("chunks is 0"));
  CHECK_THAT(error_after([&](B, H h) { shape(h).chunks.size_bytes -= 4; }), ContainsSubstring("chunks.size_bytes"));
  CHECK_THAT(error_after([&](B, H h) { shape(h).chunks.size_bytes -= sizeof(RuleChunk); }),
             ContainsSubstring("no such chunk"));
  CHECK_THAT(error_after([&](B b, H h) { b.at<uint32_t>(shape(h).exact)[65535] = 99; }),
             ContainsSubstring("chunk_of[65535] is 99: no such chunk"));
  CHECK_THAT(error_after([&](B b, H h) { b.at<uint32_t>(shape(h).chunks)[255] = 1; }), ContainsSubstring("chunk 0"));
  CHECK_THAT(error_after([&](B b, H h) { b.at<uint32_t>(shape(h).chunks)[256] = 4; }),
             ContainsSubstring("chunk 1: rule is 4: not there"));
}

TEST_CASE("every truncation and extension is refused") {
  const Buffer good = build(full_input(50, 23));
  const weir_snapshot_header header = *reinterpret_cast<const weir_snapshot_header*>(good.bytes().data());
  std::set<uint64_t> edges = {0, 1, 8, sizeof header - 1, sizeof header, sizeof header + 1, header.total_bytes - 1};
  const auto add = [&](const weir_section& section) {
    const uint64_t end = section.offset + section.size_bytes;
    for (uint64_t edge : {section.offset, end, (end + WEIR_PAGE_BYTES - 1) / WEIR_PAGE_BYTES * WEIR_PAGE_BYTES}) {
      for (uint64_t size : {edge - 1, edge, edge + 1}) {
        if (size < header.total_bytes) edges.insert(size);
      }
    }
  };
  add(header.lists);
  add(header.sets);
  add(header.rules);
  for (const weir_shape& shape : std::span(header.shapes, header.n_shapes)) {
    add(shape.filter);
    add(shape.exact);
    if (shape.chunks.offset != 0) add(shape.chunks);
  }
  for (uint64_t size : edges) {
    Buffer cut(good.bytes().first(size));
    INFO("cut to " << size);
    REQUIRE(open_error(cut) != "accepted");
    if (size < sizeof header) continue;
    cut.header().total_bytes = size;  // a header that lies about it does not help
    REQUIRE(open_error(cut) != "accepted");
  }
  Buffer longer(good.bytes().size() + 4096);
  memcpy(longer.bytes().data(), good.bytes().data(), good.bytes().size());
  REQUIRE(open_error(longer) != "accepted");
  longer.header().total_bytes += 4096;
  REQUIRE(open_error(longer) != "accepted");
}

// Whatever the bytes are: open() refuses them, or every lookup stays inside them (AddressSanitizer watches: the buffer
// is exactly as long as the snapshot) and ends.
TEST_CASE("a damaged snapshot is refused or harmless") {
  SnapshotInput input = full_input(30, 24);
  input.networks.clear();  // small, so that thousands of mutations are quick; a bitmap has its turn below
  input.gates[weir_gate_number(4, WEIR_SIDE_SOURCE)].tables = {{16, 0}};
  input.gates[weir_gate_number(6, WEIR_SIDE_DESTINATION)].tables = {{15, 0}, {48, 1024}};
  const Buffer hashed = build(input);
  input.tables.clear();
  input.networks = {{5, 5, 1}, {300, 1000, 2}};
  const Buffer networks = build(input);
  Random random(25);
  unsigned refused = 0, harmless = 0;
  constexpr size_t kUsedHeader = offsetof(weir_snapshot_header, shapes) + 7 * sizeof(weir_shape);
  const auto mutate = [&](const Buffer& good, unsigned times) {
    Buffer damaged(good.bytes());
    std::vector<size_t> touched;
    for (unsigned round = 0; round < times; round++) {
      for (uint64_t n = 1 + random.below(3); n > 0; n--) {
        // Mostly the header, and mostly its used part.
        const size_t range = random.below(4) == 0 ? damaged.bytes().size() : random.below(2) ? kUsedHeader : 4096;
        const size_t at = random.below(range);
        touched.push_back(at);
        auto& byte = damaged.bytes()[at];
        switch (random.below(4)) {
          case 0:
            byte ^= std::byte(1u << random.below(8));
            break;
          case 1:
            byte = std::byte(0xff);
            break;
          case 2:
            byte = std::byte(0);
            break;
          default:
            byte = std::byte(random.below(256));
        }
      }
      if (const auto view = SnapshotView::open(damaged.bytes())) {
        follow_everything(*view, [&] { return random.next(); });
        harmless++;
      } else {
        refused++;
      }
      for (size_t at : touched) damaged.bytes()[at] = good.bytes()[at];
      touched.clear();
    }
  };
  mutate(hashed, 8000);
  mutate(networks, 400);
  REQUIRE(refused > 1000);
  REQUIRE(harmless > 500);
}

// What a reader cannot refuse must still end: full tables whose every bucket has overflowed, the same key everywhere.
TEST_CASE("a table made to be slow or ambiguous still gives valid rules") {
  for (KeyShape shape : kShapes) {
    SnapshotInput input = empty_input();
    Random random(26);
    input.tables.push_back(random_table(shape, 300, 4, random));
    Buffer bytes = build(input);
    const Key key = key_at(input.tables[0], 0);
    weir_shape& header = bytes.header().shapes[0];
    with_bucket_type(shape, [&]<class Bucket>() {
      auto* buckets = bytes.at<Bucket>(header.exact);
      for (uint32_t b = 0; b < header.exact_buckets; b++) {
        buckets[b].overflow = ~0u;
        for (unsigned slot = 0; slot < kSlots<Bucket>; slot++) {
          store_key(buckets[b], slot, key);
          buckets[b].rule[slot] = 1 + slot % 3;
        }
      }
      header.n_keys = uint64_t{header.exact_buckets} * kSlots<Bucket>;
    });
    const SnapshotView view = test::open(bytes);
    REQUIRE(find_rule(view.shapes()[0], key) < view.header().n_rules);
    for (int i = 0; i < 100; i++) {
      REQUIRE(exact_find(view.shapes()[0], key, random.next()) < view.header().n_rules);
      REQUIRE(exact_find(view.shapes()[0], random.key(shape), random.next()) < view.header().n_rules);
    }
  }
}
