#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tests/agreement/choices.h"
#include "tests/drawn/document.h"

// What the drawers of all formats share: a document that is written, and the words that stand in feeds.
namespace weir::drawn {

using agreement::Choices;

struct Written {
  std::string text;
  std::vector<Range> ranges;
};

class Drawing {
 public:
  Drawing(Choices& random, std::string drawn_as);

  // Addresses that are drawn from here on belong to this item.
  void begin(std::string_view kind);
  void accept(std::vector<Range> ranges) { item().accepted.push_back(std::move(ranges)); }
  void accept_warned(std::vector<Range> ranges) { item().accepted_warned = std::move(ranges); }
  void count_if_read() { item().count_if_read = 1; }
  void must_count(uint32_t n = 1) { item().must_count = n; }
  void may_count(uint32_t n = 1) { item().may_count = n; }
  void doubt() { document.must_read = false; }  // a refusal of the whole is fine

  // An address of a network of its own; odd: no prefix length fits it.
  Ipv4 host4();
  Ipv6 host6();
  Ipv4 network4();  // x.y.z.0
  Range range_of(Ipv4 address) const { return {address, address, 0, true}; }
  Range range_of(Ipv6 address) const { return {address, address, 0, false}; }

  // An entry of these kinds.
  Written host();  // either family, in one of its spellings
  Written prefix();
  Written entry();      // host or prefix
  Written any_entry();  // ranges and ports, too
  Written range();
  Written with_port();
  std::string bad_entry(bool may_be_padded = true);  // text that names an address and is no entry: counted

  std::string spelled(Ipv6 address);
  std::string blanks();

  Choices& random;
  Document document;

 private:
  Item& item() { return document.items.back(); }
  uint32_t next_network();

  uint32_t salt_;
  uint32_t networks_ = 0;
};

Range prefix_of(Ipv4 address, unsigned bits);
Range prefix_of(Ipv6 address, unsigned bits);

// --- words ---

extern const std::vector<std::string_view> kPassWords;   // behind an address: it is an exception
extern const std::vector<std::string_view> kBlockWords;  // behind an address: it is what the list is about
extern const std::vector<std::string_view> kRemarks;     // no word of a verdict, no address
extern const std::vector<std::string_view> kComments;    // behind a #; some hold addresses
extern const std::vector<std::string_view> kPassNames;   // of sets and paths
extern const std::vector<std::string_view> kBlockNames;
extern const std::vector<std::string_view> kPlainNames;  // neither of them

inline std::string_view one_of(Choices& random, const std::vector<std::string_view>& words) {
  return words[random.below(static_cast<uint32_t>(words.size()))];
}

// --- documents ---

Document draw_plain(Choices& random);
Document draw_csv(Choices& random);
Document draw_json(Choices& random);
Document draw_json_lines(Choices& random);
Document draw_ipset(Choices& random);
Document draw_nft(Choices& random);
Document draw_nginx(Choices& random);
Document draw_iproute(Choices& random);
Document draw_zeek(Choices& random);
Document draw_p2p(Choices& random);
Document draw_dat(Choices& random);
Document draw_spamhaus(Choices& random);
Document draw_crowdsec(Choices& random);
Document draw_misp(Choices& random);
Document draw_rir(Choices& random);
Document draw_suricata(Choices& random);
Document draw_mikrotik(Choices& random);
Document draw_hosts_deny(Choices& random);
Document draw_access(Choices& random);
Document draw_rbldnsd(Choices& random);
Document draw_iprep(Choices& random);
Document draw_aws(Choices& random);
Document draw_gcp(Choices& random);
Document draw_azure(Choices& random);
Document draw_cloudflare(Choices& random);
Document draw_fastly(Choices& random);
Document draw_github(Choices& random);
Document draw_oracle(Choices& random);
Document draw_stix(Choices& random);
Document draw_misp_event(Choices& random);

struct Drawer {
  const char* format;
  Document (*draw)(Choices& random);
};
std::vector<Drawer> drawers();  // of the formats that are there

// One of any format.
Document draw(Choices& random);

// Lines are ended by LF, CRLF, CR CR LF; the last one may have no end; a byte order mark may stand in front.
std::string with_line_ends(Choices& random, std::string text);

}  // namespace weir::drawn
