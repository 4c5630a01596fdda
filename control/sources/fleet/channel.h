#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/result.h"
#include "control/base/json/fields.h"
#include "control/sources/etcd/client.h"

// What controld and the process that speaks to etcd for it (follower.h) tell each other: JSON, one object a message.
// Long things lie at the begin of the memory that both see.
namespace weir::control::fleet {

// The first order: whose inputs these are, and how etcd is reached.
struct Follow {
  std::string fleet, node;
  std::vector<std::string> endpoints;
  std::string ca_pem, cert_pem, key_pem;  // empty: see HttpTls
  std::string user, password;
};
void members(Fields& f, Follow& follow);

struct Order {
  // report   text is the node's; it is also what says that the node is alive
  // revision number: its manifest
  // pieces   digest, bytes: which pieces this file consists of
  // blob     digest, bytes: its bytes; with an url and packed_bytes from there, else the pieces that were told last,
  //          and of these those that have a 1 in text
  // share    list, entry, ttl_s, comment
  // told     text, to the question with this id (digest)
  std::string kind;
  std::string text;
  uint64_t number = 0;
  std::string digest, url;
  uint64_t bytes = 0, packed_bytes = 0;
  std::string list, entry, comment;
  uint64_t ttl_s = 0;
};
void members(Fields& f, Order& order);

// An entry that is there from now on, or is gone.
struct EntryNews {
  std::string list, entry;
  bool is_gone = false;
  uint64_t ttl_s = 0;  // that are left of it; 0: it stays
  std::string comment;
};
void members(Fields& f, EntryNews& news);

struct News {
  // connected, lost (error)
  // head      text; empty: the fleet has none yet. at: the revision of etcd's store
  // ask       text
  // entries   some of them; is_whole: they are of all that there are, and the last of these has is_last
  // revision  number; bytes of its manifest in the memory, or an error
  // pieces    digest; bytes of their list in the memory, or an error
  // blob      digest: its bytes are in the memory, those that were asked for; or an error
  // reported, shared: done, or an error
  std::string kind;
  std::string text, error, digest;
  uint64_t number = 0, bytes = 0;
  int64_t at = 0;
  bool is_whole = false, is_last = false;
  std::vector<EntryNews> entries;
};
void members(Fields& f, News& news);

constexpr size_t kMostMessage = 128 << 10;  // bytes
constexpr size_t kMostEntryNews = 100;      // entries of a message

std::string text_of(const Follow& follow);
std::string text_of(const Order& order);
std::string text_of(const News& news);
Result<Follow> read_follow(std::string_view text);
Result<Order> read_order(std::string_view text);
Result<News> read_news(std::string_view text);

}  // namespace weir::control::fleet
