// Writes a capture of frames whose keys a snapshot does not hold: of each shape with a hashed filter so many different
// ones, beside keys that it holds, so that the gates let them pass. With --let-through only those that the filter lets
// through all the same: what an attacker sends who has read the secret. As many other frames are between them. Prints
// {shape: {"keys", "let_through"}}.
//
// It reads the file that controld and the data plane keep (STATE_DIR/snapshot.weir), as root may.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <optional>
#include <random>
#include <string>
#include <unordered_set>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "common/files.h"
#include "control/compile/plan/fit.h"
#include "filter/format/buckets.h"
#include "filter/format/rules.h"
#include "filter/probe/dispatch.h"
#include "filter/probe/exact.h"

namespace weir::test {
namespace {

using filter::Key;
using filter::ShapeView;

constexpr uint8_t kTcp = 6, kUdp = 17;
constexpr uint64_t kMostTries = 2'000'000;  // candidates of a frame that is wanted, on the average

struct Options {
  std::string snapshot, out;
  uint64_t frames = 10000, seed = 1;
  bool let_through = false, anywhere = false, xdp = false;
};

uint64_t leading(unsigned bits) {
  return filter::word_mask(std::min(bits, 64u));
}

std::vector<Key> keys_of(const ShapeView& shape) {
  std::vector<Key> keys;
  filter::with_bucket_type(shape.shape, [&]<class Bucket>() {
    for (const Bucket& bucket : std::span(reinterpret_cast<const Bucket*>(shape.exact), shape.exact_buckets)) {
      for (unsigned slot = 0; slot < filter::kSlots<Bucket>; slot++) {
        if (bucket.rule[slot] == 0) continue;
        Key& key = keys.emplace_back();
        for (unsigned w = 0; w < filter::key_words_of<Bucket>(); w++) key.word[w] = filter::slot_word(bucket, slot, w);
      }
    }
  });
  return keys;
}

class Maker {
 public:
  Maker(const filter::SnapshotView& view, const ShapeView& shape, const Options& options, uint64_t seed)
      : view_(view), shape_(shape), options_(options), random_(seed), stored_(keys_of(shape)) {
    mask_ = filter::key_mask(shape.shape);
  }

  // Empty: none was found.
  std::vector<Key> make(uint64_t wanted, uint64_t& let_through) {
    std::vector<Key> made;
    std::unordered_set<uint64_t> seen;
    if (stored_.empty()) return made;
    for (uint64_t tries = 0; made.size() < wanted && tries < wanted * kMostTries; tries++) {
      const Key key = candidate();
      if (!passes_gate(key) || filter::find_rule(shape_, key) != 0) continue;
      const bool passes = passes_filter(key);
      if ((options_.let_through && !passes) || !seen.insert(place(key)).second) continue;
      let_through += passes;
      made.push_back(key);
    }
    return made;
  }

  // On which side of a packet the key is.
  unsigned side() const {
    if (shape_.shape.flow) return WEIR_SIDE_SOURCE;
    return (shape_.directions & WEIR_AS_SOURCE) != 0 ? WEIR_SIDE_SOURCE : WEIR_SIDE_DESTINATION;
  }

 private:
  uint64_t below(uint64_t n) { return random_() % n; }

  // A stored key in which something is another.
  Key candidate() {
    const filter::KeyShape shape = shape_.shape;
    Key key = stored_[below(stored_.size())];
    Key kept = mask_;  // bits that stay
    const bool fields = shape.with_port || shape.flow_fields != 0;
    if (fields && below(2) == 0) {
      change_fields(kept);
    } else {
      change_address(kept);
    }
    for (unsigned w = 0; w < key.word.size(); w++) {
      key.word[w] = (key.word[w] & kept.word[w]) | (random_() & mask_.word[w] & ~kept.word[w]);
    }
    return key;
  }

  void change_fields(Key& kept) {
    const filter::KeyShape shape = shape_.shape;
    // Ports alone: another protocol may have none.
    if (shape.flow) {
      kept.word[shape.family == 4 ? 1 : 4] &= ~uint64_t{0xffffffff};
    } else if (shape.family == 4) {
      kept.word[0] &= 0xffffffff;
    } else {
      kept.word[2] = 0;
    }
  }

  // The last bits of an address: few enough that a gate still knows its beginning, of IPv6 perhaps half of it.
  void change_address(Key& kept) {
    const filter::KeyShape shape = shape_.shape;
    const bool of_destination = shape.flow && (shape.addr_bits == 0 || (shape.destination_bits != 0 && below(2) == 0));
    const unsigned bits = of_destination ? shape.destination_bits : shape.addr_bits;
    constexpr unsigned kLast[] = {2, 4, 8, 10, 16, 32, 64, 80};
    const unsigned last = options_.anywhere ? bits : kLast[below(shape.family == 4 ? 4 : std::size(kLast))];
    const unsigned stays = bits > last ? bits - last : 0;
    if (shape.family == 4) {
      const unsigned shift = of_destination ? 32 : 0;
      const uint64_t address = uint64_t{0xffffffff} << shift;
      kept.word[0] &= ~address | (leading(stays) & 0xffffffff) << shift;
    } else {
      uint64_t* words = kept.word.data() + (of_destination ? 2 : 0);
      words[0] &= leading(stays);
      words[1] &= stays > 64 ? leading(stays - 64) : 0;
    }
  }

  bool passes_gate(const Key& key) const {
    const filter::KeyShape shape = shape_.shape;
    const unsigned at = shape.flow ? shape_.gate_side : side();
    const uint64_t word = key.word[shape.flow && shape.family == 6 && at == WEIR_SIDE_DESTINATION ? 2 : 0];
    const uint64_t v4 = shape.flow && at == WEIR_SIDE_DESTINATION ? word >> 32 : word & 0xffffffff;
    const uint64_t address =
        shape.family == 4 ? weir_gate_address_v4(static_cast<uint32_t>(v4)) : weir_gate_address_v6(word);
    return filter::passes_gate(options_.xdp ? view_.xdp_gate(shape.family, at) : view_.gate(shape.family, at), address);
  }

  uint64_t place(const Key& key) const {
    const uint64_t* words[WEIR_MAX_KEY_WORDS];
    for (unsigned w = 0; w < WEIR_MAX_KEY_WORDS; w++) words[w] = &key.word[w];
    uint64_t place = 0;
    filter::place_keys(kernels(), shape_, words, 1, &place);
    return place;
  }

  bool passes_filter(const Key& key) const {
    const uint64_t at = place(key);
    return kernels().layout[shape_.layout].check(shape_.filter, &at, 1) != 0;
  }

  static const filter::Kernels& kernels() { return *filter::all_kernels().back(); }

  const filter::SnapshotView& view_;
  const ShapeView& shape_;
  const Options& options_;
  std::mt19937_64 random_;
  std::vector<Key> stored_;
  Key mask_;
};

void append(std::string& bytes, const void* more, size_t n) {
  bytes.append(static_cast<const char*>(more), n);
}

void append_be16(std::string& bytes, unsigned value) {
  bytes.push_back(static_cast<char>(value >> 8));
  bytes.push_back(static_cast<char>(value));
}

// A UDP or TCP packet with the key; what the key does not say is the same in all.
std::string frame_of(const ShapeView& shape, const Key& key, unsigned side) {
  const filter::KeyShape of = shape.shape;
  uint8_t address[2][16] = {{198, 18, 0, 1}, {198, 19, 0, 1}};
  uint16_t port[2] = {__builtin_bswap16(1024), __builtin_bswap16(1025)};
  uint8_t protocol = kUdp;
  const size_t bytes = of.family == 4 ? 4 : 16;
  if (of.family == 6) {
    const uint8_t other[16] = {0x20, 0x01, 0x00, 0x02};  // 2001:2::/48, for benchmarks
    memcpy(address[0], other, sizeof other);
    memcpy(address[1], other, sizeof other);
  }
  const auto* words = reinterpret_cast<const uint8_t*>(key.word.data());
  if (of.flow) {
    if (of.addr_bits != 0) memcpy(address[0], words, bytes);
    if (of.destination_bits != 0) memcpy(address[1], words + bytes, bytes);
    const uint64_t fields = key.word[of.family == 4 ? 1 : 4];
    if ((of.flow_fields & WEIR_FLOW_SPORT) != 0) port[0] = static_cast<uint16_t>(fields);
    if ((of.flow_fields & WEIR_FLOW_DPORT) != 0) port[1] = static_cast<uint16_t>(fields >> 16);
    if ((of.flow_fields & WEIR_FLOW_PROTOCOL) != 0) protocol = static_cast<uint8_t>(fields >> 32);
  } else {
    memcpy(address[side], words, bytes);
    if (of.with_port) port[side] = static_cast<uint16_t>(of.family == 4 ? key.word[0] >> 32 : key.word[2]);
  }
  const unsigned payload = protocol == kTcp ? 20 : 8;
  std::string frame(12, '\x02');
  append_be16(frame, of.family == 4 ? 0x0800 : 0x86dd);
  if (of.family == 4) {
    frame += {0x45, 0};
    append_be16(frame, 20 + payload);
    frame += {0, 0, 0, 0, 64, static_cast<char>(protocol), 0, 0};
  } else {
    frame += {0x60, 0, 0, 0};
    append_be16(frame, payload);
    frame += {static_cast<char>(protocol), 64};
  }
  append(frame, address[0], bytes);
  append(frame, address[1], bytes);
  append(frame, port, sizeof port);
  frame.resize(frame.size() + payload - 4, '\0');
  if (protocol == kTcp) frame[frame.size() - 8] = 0x50;
  if (protocol == kUdp) frame[frame.size() - 3] = 8;  // length
  frame.resize(std::max<size_t>(frame.size(), 60), '\0');
  return frame;
}

void append_record(std::string& file, const std::string& frame) {
  const uint32_t record[] = {0, 0, static_cast<uint32_t>(frame.size()), static_cast<uint32_t>(frame.size())};
  append(file, record, sizeof record);
  file += frame;
}

int run(const Options& options) {
  const Fd file(open(options.snapshot.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat status = {};
  if (!file || fstat(file.get(), &status) != 0) return fmt::print(stderr, "cannot open {}\n", options.snapshot), 1;
  const Result<Mapping> mapping = map_read_only(file.get(), static_cast<size_t>(status.st_size));
  if (!mapping || mapping->size() < sizeof(weir_snapshot_header)) return fmt::print(stderr, "cannot map it\n"), 1;
  const auto& header = *reinterpret_cast<const weir_snapshot_header*>(mapping->bytes().data());
  const size_t size = std::min<size_t>(header.total_bytes, mapping->size());
  const Result<filter::SnapshotView> view = filter::SnapshotView::open(mapping->bytes().first(size));
  if (!view) return fmt::print(stderr, "{}\n", view.error()), 1;

  const uint32_t pcap[] = {0xa1b2c3d4, 4u << 16 | 2, 0, 0, 65535, 1};
  std::vector<std::string> frames;
  nlohmann::json told = nlohmann::json::object();
  for (const ShapeView& shape : view->shapes()) {
    if (shape.layout == WEIR_LAYOUT_BITMAP) continue;
    Maker maker(*view, shape, options, options.seed + frames.size());
    uint64_t let_through = 0;
    const std::vector<Key> keys = maker.make(options.frames, let_through);
    for (const Key& key : keys) frames.push_back(frame_of(shape, key, maker.side()));
    told[control::shape_name(shape.shape, false)] = {{"keys", keys.size()}, {"let_through", let_through}};
  }
  // What gates decide, so that workers go on asking them: nobody's packets, from the network of benchmarks (RFC 2544).
  for (size_t i = frames.size(); i > 0; i--) frames.push_back(frame_of(ShapeView{}, Key{{0x12c6}}, WEIR_SIDE_SOURCE));
  std::shuffle(frames.begin(), frames.end(), std::mt19937_64(options.seed));
  std::string bytes;
  append(bytes, pcap, sizeof pcap);
  for (const std::string& frame : frames) append_record(bytes, frame);
  std::ofstream out(options.out, std::ios::binary);
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  out.close();
  if (!out) return fmt::print(stderr, "cannot write {}\n", options.out), 1;
  fmt::print("{}\n", told.dump());
  return 0;
}

}  // namespace
}  // namespace weir::test

int main(int argc, char** argv) {
  weir::test::Options options;
  CLI::App app("Frames whose keys a snapshot does not hold.");
  app.add_option("SNAPSHOT", options.snapshot, "snapshot.weir of a state directory")->required();
  app.add_option("OUT", options.out, "the capture to write")->required();
  app.add_option("--frames", options.frames, "of each shape");
  app.add_option("--seed", options.seed, "of all that is random");
  app.add_flag("--let-through", options.let_through, "only keys that the filter lets through");
  app.add_flag("--anywhere", options.anywhere, "all bits of an address are random");
  app.add_flag("--xdp", options.xdp, "the gates are those of XDP");
  CLI11_PARSE(app, argc, argv);
  return weir::test::run(options);
}
