#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/result.h"
#include "control/sources/etcd/client.h"
#include "control/sources/fleet/head.h"
#include "control/sources/fleet/names.h"
#include "control/sources/fleet/report.h"
#include "control/sources/fleet/revision.h"

// What people do to a fleet: every change of its head is one transaction of etcd, which fails when somebody else was
// faster.
namespace weir::control::fleet {

// A head as it was read.
struct HeadAt {
  Head head;               // turn 0: the fleet has none yet
  int64_t changed_at = 0;  // revision of etcd's store; 0: likewise
};

struct Node {
  Report report;
  bool is_alive = false;  // it told so within the last 15 s
};

// A file that is pushed.
struct PushedFile {
  std::string path;  // relative to the policy's folder
  std::string bytes;
};

struct Push {
  std::string policy;  // the path of the policy among `files`
  std::vector<PushedFile> files;
  std::string comment;
  bool is_staged = false;  // it is stored, and no group enforces it yet
  // Files of more bytes are not put into etcd but given to store(), packed, which answers with the url that nodes are
  // to fetch. Without store() everything goes to etcd.
  uint64_t most_in_etcd = uint64_t{16} << 20;
  std::function<Result<std::string>(const std::string& digest, std::string_view packed)> store = {};
};

struct Pushed {
  Revision revision;
  Head head;
  size_t files_sent = 0;    // that etcd did not have, or not all of
  uint64_t bytes_sent = 0;  // of them, packed
};

class Desk {
 public:
  // who: for the log.
  Desk(etcd::Access access, std::string fleet, std::string who)
      : names_(fleet), fleet_(std::move(fleet)), who_(std::move(who)), client_(std::move(access)) {}

  Result<HeadAt> head();
  // The newest first.
  Result<std::vector<Revision>> revisions();
  Result<Revision> revision(uint64_t number);
  // The bytes of one of its files; of one that is in etcd.
  Result<std::string> file(const BlobFile& file);
  Result<std::vector<Node>> nodes();
  Result<std::vector<Head>> log(size_t most);  // the newest first

  // Error: nothing is enforced that was not before. Somebody else may have been faster.
  Result<Pushed> push(const Push& push);
  // change() makes of the head that was read what it is to be; its error is returned. what: for the log.
  Result<Head> change(const std::string& what, const std::function<Result<void>(Head& head)>& change);

  // Asks every node that is alive what this revision would do to its traffic; waits for them. Returns what they said.
  Result<std::vector<Told>> plan(uint64_t revision, double seconds);

  struct NewEntry {
    std::string list, text;
  };
  // ttl_s 0: they stay until they are deleted. Returns the revision of etcd's store in which they are.
  Result<int64_t> add(const std::vector<NewEntry>& entries, uint64_t ttl_s, const std::string& comment);
  struct Deleted {
    size_t deleted = 0, missing = 0;
    int64_t at = 0;
  };
  Result<Deleted> del(const std::vector<NewEntry>& entries);
  struct Entry {
    std::string list, text;
    Added added;
    int64_t lease = 0;
  };
  // list: empty: of all lists.
  Result<std::vector<Entry>> entries(const std::string& list);

  etcd::Client& client() { return client_; }

 private:
  Result<HeadAt> head_to_replace();
  Result<std::vector<uint64_t>> numbers_of_revisions();
  etcd::Transaction change_of(const HeadAt& before, const Head& after) const;
  Result<int64_t> swept_at();
  void sweep(const Head& head, int64_t changed_at);

  const Names names_;
  const std::string fleet_, who_;
  etcd::Client client_;
};

}  // namespace weir::control::fleet
