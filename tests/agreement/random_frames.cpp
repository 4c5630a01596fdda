#include "tests/agreement/random_frames.h"

#include <algorithm>

namespace weir::agreement {
namespace {

constexpr unsigned kMaxDepth = 6;  // layers; the data plane looks at four
constexpr uint8_t kIcmp = 1, kIpip = 4, kTcp = 6, kUdp = 17, kDccp = 33, k6In4 = 41, kFragment = 44, kGre = 47,
                  kEsp = 50, kAh = 51, kIcmpV6 = 58, kNoNext = 59, kSctp = 132, kUdpLite = 136;

class Writer {
 public:
  Writer(Choices& choices, Frame& frame, const std::vector<Ipv6> (&addresses)[2], unsigned known_percent,
         const std::vector<uint16_t>& ports)
      : choices_(choices), frame_(frame), addresses_(addresses), known_percent_(known_percent), ports_(ports) {}

  void ethernet(unsigned depth) {
    constexpr uint8_t kMacs[] = {2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2};
    frame_.insert(frame_.end(), std::begin(kMacs), std::end(kMacs));
    unsigned tags = 0;
    if (choices_.one_in(4)) tags = choices_.one_in(20) ? choices_.below(11) : 1 + choices_.below(2);
    for (; tags > 0; tags--) {
      constexpr unsigned kVlans[] = {0x8100, 0x88a8, 0x9100};
      put16(choices_.of(kVlans));
      put16(choices_.next());
    }
    const unsigned kind = choices_.below(24);
    if (kind == 21) {
      put16(choices_.one_in(3) ? 0x8848 : 0x8847);
      mpls(depth);
    } else if (kind == 22) {
      pppoe(depth);
    } else if (kind == 23) {
      put16(choices_.below(2) == 0 ? 0x0806 : choices_.next());
      noise(choices_.below(60));
    } else {
      const bool is_v6 = choices_.below(2) == 1;
      put16(is_v6 ? 0x86dd : 0x0800);
      ip(is_v6, depth);
    }
  }

 private:
  void put8(unsigned value) { frame_.push_back(static_cast<uint8_t>(value)); }
  void put16(unsigned value) {
    put8(value >> 8);
    put8(value);
  }
  void put32(unsigned value) {
    put16(value >> 16);
    put16(value);
  }
  void patch16(size_t at, unsigned value) {
    frame_[at] = static_cast<uint8_t>(value >> 8);
    frame_[at + 1] = static_cast<uint8_t>(value);
  }
  void noise(unsigned n) {
    for (; n > 0; n--) put8(choices_.next());
  }

  void mpls(unsigned depth) {
    for (unsigned labels = 1 + choices_.below(choices_.one_in(8) ? 9 : 2); labels > 0; labels--) {
      put16(choices_.next());
      put16((choices_.next() & 0xfe00) | (labels == 1 ? 0x100 : 0) | 64);
    }
    if (choices_.one_in(8)) return noise(choices_.below(40));  // a pseudowire
    ip(choices_.below(2) == 1, depth);
  }

  void pppoe(unsigned depth) {
    put16(0x8864);
    put8(choices_.one_in(12) ? choices_.next() : 0x11);
    put8(choices_.one_in(12) ? choices_.next() : 0);
    put32(choices_.next());
    const bool is_v6 = choices_.below(2) == 1;
    put16(choices_.one_in(12) ? choices_.next() : is_v6 ? 0x0057 : 0x0021);
    ip(is_v6, depth);
  }

  void ip(bool is_v6, unsigned depth) { is_v6 ? ipv6(depth) : ipv4(depth); }

  void put_address(bool is_v6) {
    const std::vector<Ipv6>& known = addresses_[is_v6];
    Ipv6 address = is_v6 ? Ipv6{0x20010db9} << 96 : Ipv6{0xc6120000};  // a stranger's network
    if (choices_.below(100) < known_percent_ && !known.empty()) {
      address = known[choices_.below(static_cast<uint32_t>(known.size()))];
      const unsigned how = choices_.below(8);
      if (how == 5) address += 1;
      if (how == 6) address -= 1;
      if (how == 7) address ^= Ipv6{1} << choices_.below(is_v6 ? 128 : 32);
    } else {
      address += choices_.below(4096);
    }
    for (int byte = is_v6 ? 15 : 3; byte >= 0; byte--) put8(static_cast<unsigned>(address >> 8 * byte));
  }

  // What a length field says of `right`: mostly the truth.
  unsigned length(size_t right) {
    const unsigned how = choices_.below(24);
    if (how == 21) return 0;
    if (how == 22) return static_cast<unsigned>(right) + choices_.below(40);
    if (how == 23)
      return static_cast<unsigned>(right) - std::min<unsigned>(choices_.below(40), static_cast<unsigned>(right));
    return static_cast<unsigned>(right);
  }

  void ipv4(unsigned depth) {
    const size_t at = frame_.size();
    const unsigned option_words = choices_.one_in(8) ? 1 + choices_.below(10) : 0;
    put8(0x45 + option_words);
    put8(choices_.next());
    put16(0);  // total length
    put16(choices_.next());
    const unsigned kind = choices_.below(16);  // of fragment
    put16(kind == 13 ? 0x2000 : kind == 14 ? 1 + choices_.below(0x1fff) : kind == 15 ? 0x4000 : 0);
    put8(64);
    put8(0);  // protocol
    put16(0);
    put_address(false);
    put_address(false);
    noise(option_words * 4);
    frame_[at + 9] = payload(false, depth);
    patch16(at + 2, length(frame_.size() - at));
    uint32_t sum = 0;
    const size_t end = at + 20 + option_words * 4;
    for (size_t i = at; i < end; i += 2) sum += static_cast<uint32_t>(frame_[i] << 8 | frame_[i + 1]);
    while (sum >> 16 != 0) sum = (sum & 0xffff) + (sum >> 16);
    patch16(at + 10, choices_.one_in(16) ? choices_.next() : ~sum);
    padding();
  }

  void ipv6(unsigned depth) {
    const size_t at = frame_.size();
    put32(0x60000000 | (choices_.next() & 0x0fffffff));
    put16(0);  // payload length
    put8(0);   // next header
    put8(64);
    put_address(true);
    put_address(true);
    size_t next_at = at + 6;
    unsigned chain = choices_.one_in(3) ? 1 + choices_.below(choices_.one_in(12) ? 18 : 3) : 0;
    for (; chain > 0; chain--) next_at = extension(next_at);
    frame_[next_at] = payload(true, depth);
    patch16(at + 4, length(frame_.size() - at - 40));
    padding();
  }

  // Writes one extension header, and its number where the one before has room for it; returns where the next one's
  // goes.
  size_t extension(size_t next_at) {
    constexpr uint8_t kNumbers[] = {0, 43, 60, 44, 51, 135, 139, 140};
    const uint8_t number = choices_.of(kNumbers);
    frame_[next_at] = number;
    const size_t at = frame_.size();
    put8(0);
    if (number == kFragment) {
      put8(0);
      put16(choices_.one_in(4) ? choices_.next() : choices_.below(2));  // first, or atomic
      put32(choices_.next());
    } else if (number == kAh) {
      const unsigned words = choices_.below(5);
      put8(words);
      noise((words + 2) * 4 - 2);
    } else {
      const unsigned more = choices_.below(3);
      put8(choices_.one_in(40) ? choices_.next() : more);
      noise(6 + 8 * more);
    }
    return at;
  }

  unsigned port() {
    if (choices_.one_in(10)) return choices_.next() & 0xffff;
    return ports_[choices_.below(static_cast<uint32_t>(ports_.size()))] + (choices_.one_in(12) ? 1u : 0u);
  }

  void padding() {
    if (choices_.one_in(8)) noise(1 + choices_.below(20));
  }

  // Writes what the IP header carries; returns its protocol.
  uint8_t payload(bool over_v6, unsigned depth) {
    if (depth + 1 < kMaxDepth && choices_.one_in(4)) return tunnel(depth + 1);
    switch (choices_.below(12)) {
      case 0:
      case 1:
      case 2:
        ports();
        put16(8);
        put16(0);
        noise(choices_.below(8));
        return kUdp;
      case 3:
      case 4:
      case 5:
        ports();
        put32(choices_.next());
        put32(choices_.next());
        put8(0x50);
        if (choices_.one_in(12)) return kTcp;  // up to its flags
        put8(choices_.one_in(4) ? choices_.next() : choices_.below(2) == 0 ? 0x02 : 0x12);
        put16(0);
        put32(0);
        return kTcp;
      case 6:
      case 7:
        if (choices_.one_in(12)) return over_v6 ? kIcmpV6 : kIcmp;
        put8(choices_.below(4));
        if (!choices_.one_in(6)) {  // its type alone
          put8(choices_.below(3));
          noise(choices_.below(8));
        }
        return over_v6 != choices_.one_in(8) ? kIcmpV6 : kIcmp;
      case 8: {
        constexpr uint8_t kOthers[] = {kSctp, kDccp, kUdpLite};
        ports();
        noise(choices_.below(12));
        return choices_.of(kOthers);
      }
      case 9: {
        constexpr uint8_t kNoPorts[] = {kEsp, kNoNext, kGre, 2, 89, 255};
        noise(choices_.below(20));
        return choices_.of(kNoPorts);
      }
      default:
        ports();
        return choices_.below(2) == 0 ? kUdp : kTcp;
    }
  }

  void ports() {
    put16(port());
    put16(port());
  }

  void udp_to(unsigned destination) {
    put16(choices_.one_in(3) ? destination : port());
    put16(choices_.one_in(12) ? port() : destination);
    put16(0);
    put16(0);
  }

  uint8_t tunnel(unsigned depth) {
    const bool is_v6 = choices_.below(2) == 1;
    switch (choices_.below(7)) {
      case 0:
        ipv4(depth);
        return kIpip;
      case 1:
        ipv6(depth);
        return k6In4;
      case 2:
        gre(is_v6, depth);
        return kGre;
      case 3:
        udp_to(4789);
        put8(choices_.one_in(8) ? choices_.next() : 0x08);
        noise(7);
        ethernet(depth);
        return kUdp;
      case 4: {
        udp_to(6081);
        const unsigned option_words = choices_.one_in(3) ? choices_.below(8) : 0;
        put8(choices_.one_in(12) ? choices_.next() : option_words);
        put8(choices_.below(2) == 0 ? 0 : choices_.next());
        const unsigned kind = choices_.below(3);
        put16(kind == 0 ? 0x6558 : is_v6 ? 0x86dd : 0x0800);
        put32(choices_.next());
        noise(option_words * 4);
        kind == 0 ? ethernet(depth) : ip(is_v6, depth);
        return kUdp;
      }
      case 5:
        gtp(is_v6, depth);
        return kUdp;
      default:
        udp_to(3544);
        if (choices_.one_in(3)) {  // authentication
          const unsigned id = choices_.below(4), value = choices_.below(4);
          put16(1);
          put8(id);
          put8(value);
          noise(id + value + 9);
        }
        if (choices_.one_in(3)) {  // origin indication
          put16(0);
          noise(6);
        }
        ip(!choices_.one_in(12), depth);
        return kUdp;
    }
  }

  void gre(bool is_v6, unsigned depth) {
    const unsigned flags = choices_.below(2) == 0 ? 0 : choices_.next() & 0xb000;
    put16(flags | (choices_.one_in(16) ? choices_.next() & 0x4fff : 0));
    const unsigned kind = choices_.below(6);
    put16(kind == 3                         ? 0x6558
          : kind == 4                       ? 0x8847
          : kind == 5 && choices_.one_in(4) ? choices_.next()
          : is_v6                           ? 0x86dd
                                            : 0x0800);
    for (const unsigned flag : {0x8000u, 0x2000u, 0x1000u}) {
      if ((flags & flag) != 0) put32(choices_.next());
    }
    if (kind == 3) return ethernet(depth);
    if (kind == 4) return mpls(depth);
    ip(is_v6, depth);
  }

  void gtp(bool is_v6, unsigned depth) {
    udp_to(2152);
    const unsigned flags = choices_.below(2) == 0 ? 0 : choices_.below(8);
    put8(choices_.one_in(16) ? choices_.next() : 0x30 | flags);
    put8(choices_.one_in(16) ? choices_.next() : 255);
    put16(0);
    put32(choices_.next());
    if (flags != 0) {
      put16(choices_.next());
      put8(choices_.next());
      unsigned extensions = (flags & 4) != 0 ? choices_.below(choices_.one_in(12) ? 20 : 3) : 0;
      put8(extensions > 0 ? 0x85 : (flags & 4) != 0 ? 0 : choices_.next());
      for (; extensions > 0; extensions--) {
        const unsigned words = choices_.one_in(16) ? choices_.below(3) : 1;
        put8(words);
        if (words == 0) break;
        noise(words * 4 - 2);
        put8(extensions > 1 ? 0x85 : 0);
      }
    }
    ip(is_v6, depth);
  }

  Choices& choices_;
  Frame& frame_;
  const std::vector<Ipv6> (&addresses_)[2];
  const unsigned known_percent_;
  const std::vector<uint16_t>& ports_;
};

}  // namespace

FrameMaker::FrameMaker(const control::Policy& policy) {
  constexpr size_t kEnough = 4096;
  const auto add = [](std::vector<Ipv6>& known, Ipv6 first, Ipv6 last) {
    if (known.size() >= kEnough) return;
    known.push_back(first);
    known.push_back(last);
    known.push_back(first + (last - first) / 3);
  };
  for (const control::List& list : policy.lists) {
    for (const auto entry : list.v4()) {
      add(addresses_[0], entry.first, entry.last);
      if (entry.port != 0) ports_.push_back(entry.port);
    }
    for (const auto entry : list.v6()) {
      add(addresses_[1], entry.first, entry.last);
      if (entry.port != 0) ports_.push_back(entry.port);
    }
    for (const control::Flow& flow : list.flows()) {
      for (const auto& range : {flow.src, flow.dst}) {
        if (range) add(addresses_[flow.family == 6], range->first, range->last);
      }
      for (const auto& range : {flow.sport, flow.dport}) {
        if (!range) continue;
        ports_.push_back(range->first);
        ports_.push_back(range->last);
      }
    }
  }
  for (const int port : {53, 80, 443, 1024, 8000, 50000}) ports_.push_back(static_cast<uint16_t>(port));
}

void FrameMaker::make(Choices& choices, Frame& frame) const {
  frame.clear();
  Writer(choices, frame, addresses_, known_percent_, ports_).ethernet(0);
  const unsigned how = choices.below(16);
  if (how == 14) {
    frame.resize(choices.below(static_cast<uint32_t>(frame.size()) + 1));
  } else if (how == 15 && !frame.empty()) {
    for (unsigned n = 1 + choices.below(4); n > 0; n--) {
      const size_t at = choices.below(static_cast<uint32_t>(std::min<size_t>(frame.size(), 120)));
      frame[at] = static_cast<uint8_t>(choices.one_in(3) ? choices.next() : frame[at] ^ 1u << choices.below(8));
    }
  }
}

}  // namespace weir::agreement
