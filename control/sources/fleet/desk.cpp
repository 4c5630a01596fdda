#include "control/sources/fleet/desk.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <random>
#include <set>
#include <thread>

#include "common/clock.h"
#include "common/peer_number.h"
#include "control/sources/fleet/pieces.h"
#include "control/sources/fleet/transfer.h"

namespace weir::control::fleet {
namespace {

using etcd::Step;

constexpr size_t kKeptRevisions = 20;  // the newest, besides those of the head
constexpr uint64_t kKeptTurns = 200;   // of the log

constexpr const char* kSomebodyElse =
    "somebody else changed the fleet meanwhile: look at it (fleet status), and do it again";

// Past all of these that are possible. One that no fleet reaches ends the counting: it begins anew.
uint64_t next_number(std::vector<uint64_t> known) {
  const std::set<uint64_t> all(known.begin(), known.end());
  uint64_t next = newest_possible(std::move(known)) + 1;
  if (next > kMostNumber) next = 1;
  while (all.contains(next)) next++;
  return next;
}

// Past every turn that a node has followed: where etcd was restored from an older backup, nodes are further than the
// head. A node whose turn is not possible follows the head again (head.h, follows()).
uint64_t next_turn(const Head& head, const std::vector<Node>& nodes) {
  std::vector<uint64_t> turns = {head.turn};
  for (const Node& node : nodes) turns.push_back(node.report.turn);
  return next_number(std::move(turns));
}

std::string random_id() {
  std::random_device random;
  return fmt::format("{:08x}{:08x}", random(), random());
}

}  // namespace

Result<HeadAt> Desk::head() {
  const Result<etcd::RangeAnswer> found = client_.get(names_.head());
  if (!found) return Error{found.error()};
  if (found->pairs.empty()) return HeadAt{};
  Result<Head> head = read_head(found->pairs[0].value);
  if (!head) return Error{head.error()};
  return HeadAt{std::move(*head), found->pairs[0].changed_at};
}

Result<std::vector<Revision>> Desk::revisions() {
  const Result<etcd::RangeAnswer> found = client_.all(names_.revisions());
  if (!found) return Error{found.error()};
  std::vector<Revision> revisions;
  for (const etcd::KeyValue& pair : found->pairs) {
    if (Result<Revision> revision = read_revision(pair.value); revision) revisions.push_back(std::move(*revision));
  }
  std::reverse(revisions.begin(), revisions.end());
  return revisions;
}

Result<Revision> Desk::revision(uint64_t number) {
  const Result<etcd::RangeAnswer> found = client_.get(names_.revision(number));
  if (!found) return Error{found.error()};
  if (found->pairs.empty()) return Error{fmt::format("fleet {} has no revision {}", fleet_, number)};
  return read_revision(found->pairs[0].value);
}

Result<std::string> Desk::file(const BlobFile& file) {
  if (!file.url.empty()) return Error{file.path + " is kept at " + file.url};
  const Result<Pieces> pieces = fetch_pieces(client_, names_, file);
  if (!pieces) return Error{file.path + ": " + pieces.error()};
  std::string bytes(file.bytes, '\0');
  const std::vector<bool> all(pieces->all.size(), true);
  const Result<void> fetched = fetch_bytes(client_, names_, *pieces, all, std::as_writable_bytes(std::span(bytes)));
  if (!fetched) return Error{file.path + ": " + fetched.error()};
  if (sha256_of(std::as_bytes(std::span(bytes))) != file.digest)
    return Error{file.path + " has another digest in etcd"};
  return bytes;
}

Result<std::vector<Node>> Desk::nodes() {
  const Result<etcd::RangeAnswer> found = client_.all(names_.nodes());
  if (!found) return Error{found.error()};
  const Result<etcd::RangeAnswer> alive = client_.all(names_.all_alive(), true);
  if (!alive) return Error{alive.error()};
  std::set<std::string> names;
  for (const etcd::KeyValue& pair : alive->pairs) names.insert(pair.key.substr(names_.all_alive().size()));
  std::vector<Node> nodes;
  for (const etcd::KeyValue& pair : found->pairs) {
    Result<Report> report = read_report(pair.value);
    if (!report) continue;
    report->node = pair.key.substr(names_.nodes().size());
    const bool is_alive = names.contains(report->node);
    nodes.push_back({std::move(*report), is_alive});
  }
  return nodes;
}

Result<std::vector<Head>> Desk::log(size_t most) {
  const Result<etcd::RangeAnswer> found = client_.all(names_.log());
  if (!found) return Error{found.error()};
  std::vector<Head> heads;
  for (auto pair = found->pairs.rbegin(); pair != found->pairs.rend() && heads.size() < most; ++pair) {
    if (Result<Head> head = read_head(pair->value); head) heads.push_back(std::move(*head));
  }
  return heads;
}

// Also one that no node follows.
Result<HeadAt> Desk::head_to_replace() {
  const Result<etcd::RangeAnswer> found = client_.get(names_.head());
  if (!found) return Error{found.error()};
  if (found->pairs.empty()) return HeadAt{};
  return HeadAt{repaired_head(found->pairs[0].value), found->pairs[0].changed_at};
}

Result<std::vector<uint64_t>> Desk::numbers_of_revisions() {
  const Result<etcd::RangeAnswer> found = client_.all(names_.revisions(), true);
  if (!found) return Error{found.error()};
  std::vector<uint64_t> numbers;
  for (const etcd::KeyValue& pair : found->pairs) {
    const std::string digits = pair.key.substr(names_.revisions().size());
    const bool is_number =
        !digits.empty() && digits.size() <= 18 && digits.find_first_not_of("0123456789") == std::string::npos;
    if (is_number) numbers.push_back(std::stoull(digits));
  }
  return numbers;
}

Result<int64_t> Desk::swept_at() {
  const Result<etcd::RangeAnswer> found = client_.get(names_.swept());
  if (!found) return Error{found.error()};
  return found->pairs.empty() ? 0 : found->pairs[0].changed_at;
}

etcd::Transaction Desk::change_of(const HeadAt& before, const Head& after) const {
  const std::string text = text_of(after);
  return {{{names_.head(), before.changed_at}},
          {{Step::Kind::put, names_.head(), text}, {Step::Kind::put, names_.log(after.turn), text}},
          {}};
}

Result<Pushed> Desk::push(const Push& push) {
  const Result<HeadAt> before = head_to_replace();
  if (!before) return Error{before.error()};
  const Result<int64_t> swept = swept_at();
  if (!swept) return Error{swept.error()};
  Result<std::vector<uint64_t>> numbers = numbers_of_revisions();
  if (!numbers) return Error{numbers.error()};
  const Result<std::vector<Node>> nodes = this->nodes();
  if (!nodes) return Error{nodes.error()};

  Pushed pushed;
  Revision& revision = pushed.revision;
  // Numbers that nodes know are not given out again.
  for (const uint64_t number : {before->head.everywhere, before->head.revision, before->head.staged}) {
    numbers->push_back(number);
  }
  for (const Node& node : *nodes) numbers->push_back(node.report.revision);
  revision.number = next_number(std::move(*numbers));
  revision.policy = push.policy;
  revision.by = who_;
  revision.comment = push.comment;
  revision.at = unix_now();
  Sender sender(client_, names_);
  for (const PushedFile& source : push.files) {
    BlobFile file;
    file.path = source.path;
    file.digest = sha256_of(std::as_bytes(std::span(source.bytes)));
    file.bytes = source.bytes.size();
    if (push.store && file.bytes > push.most_in_etcd) {
      const std::string packed = pack(source.bytes);
      Result<std::string> url = push.store(file.digest, packed);
      if (!url) return Error{url.error()};
      file.url = std::move(*url);
      file.packed_bytes = packed.size();
    } else {
      const Result<bool> sent = sender.send(file.digest, source.bytes);
      if (!sent) return Error{source.path + ": " + sent.error()};
      if (*sent) pushed.files_sent++;
    }
    revision.files.push_back(std::move(file));
  }
  pushed.bytes_sent = sender.bytes_sent();
  const std::string text = text_of(revision);
  if (const Result<Revision> readable = read_revision(text); !readable) return Error{readable.error()};

  Head after = before->head;
  after.turn = next_turn(before->head, *nodes);
  after.id = random_id();
  after.by = who_;
  after.at = revision.at;
  after.staged = revision.number;
  after.what = fmt::format("{} revision {}{}", push.is_staged ? "staged" : "pushed", revision.number,
                           push.comment.empty() ? "" : ": " + push.comment);
  if (!push.is_staged) {
    move(after, "", revision.number);
    after.is_paused = false;
  }
  etcd::Transaction transaction = change_of(*before, after);
  transaction.conditions.push_back({names_.revision(revision.number), 0});
  transaction.conditions.push_back({names_.swept(), *swept});
  transaction.steps.push_back({Step::Kind::put, names_.revision(revision.number), text});
  const Result<etcd::TransactionAnswer> done = client_.commit(transaction);
  if (!done) return Error{done.error()};
  if (!done->held) return Error{kSomebodyElse};
  pushed.head = after;
  sweep(after, done->revision);
  return pushed;
}

Result<Head> Desk::change(const std::string& what, const std::function<Result<void>(Head&)>& change) {
  const Result<HeadAt> before = head();
  if (!before) return Error{before.error()};
  if (before->head.turn == 0) return Error{fmt::format("nothing was pushed to fleet {} yet", fleet_)};
  const Result<std::vector<Node>> nodes = this->nodes();
  if (!nodes) return Error{nodes.error()};
  Head after = before->head;
  after.turn = next_turn(before->head, *nodes);
  if (after.turn <= before->head.turn) {
    return Error{fmt::format("the head's turn {} is not possible, because nodes are at turn {}: {}", before->head.turn,
                             after.turn - 1, kHowToRepair)};
  }
  if (const Result<void> changed = change(after); !changed) return Error{changed.error()};
  after.id = random_id();
  after.by = who_;
  after.what = what;
  after.at = unix_now();
  const Result<etcd::TransactionAnswer> done = client_.commit(change_of(*before, after));
  if (!done) return Error{done.error()};
  if (!done->held) return Error{kSomebodyElse};
  return after;
}

// Old revisions and bytes that none needs go. What fails is done by the next push; a push that comes meanwhile finds
// that `swept` has changed, and is done again.
void Desk::sweep(const Head& head, int64_t changed_at) {
  const Result<std::vector<Revision>> all = revisions();
  if (!all) return;
  std::set<uint64_t> wanted = {head.revision, head.staged, head.everywhere, head.everywhere_before};
  for (const GroupAt& at : head.groups) wanted.insert(at.revision);
  std::set<std::string> files, pieces;  // that are kept, by digest
  std::vector<Step> steps;
  for (size_t n = 0; n < all->size(); n++) {
    const Revision& revision = (*all)[n];
    if (n >= kKeptRevisions && !wanted.contains(revision.number)) {
      steps.push_back({Step::Kind::erase, names_.revision(revision.number), ""});
      continue;
    }
    for (const BlobFile& file : revision.files) files.insert(file.digest);
  }
  if (!steps.empty()) {
    // Lists go before their pieces: where there is a list, there is all that it names.
    const Result<etcd::RangeAnswer> lists = client_.all(names_.blobs()), there = client_.all(names_.pieces(), true);
    if (!lists || !there) return;
    for (const etcd::KeyValue& pair : lists->pairs) {
      if (!files.contains(pair.key.substr(names_.blobs().size()))) {
        steps.push_back({Step::Kind::erase, pair.key, ""});
      } else if (const Result<Pieces> list = read_pieces(pair.value); list) {
        for (const Piece& piece : list->all) pieces.insert(piece.digest);
      } else {
        return;  // whose pieces are not known: none is removed
      }
    }
    for (const etcd::KeyValue& pair : there->pairs) {
      if (!pieces.contains(pair.key.substr(names_.pieces().size()))) steps.push_back({Step::Kind::erase, pair.key, ""});
    }
  }
  if (head.turn > kKeptTurns) {
    steps.push_back({Step::Kind::erase, names_.log(0), "", names_.log(head.turn - kKeptTurns)});
  }
  for (size_t begin = 0; begin < steps.size(); begin += etcd::kMostSteps) {
    etcd::Transaction transaction;
    transaction.conditions = {{names_.head(), changed_at}};
    transaction.steps = {{Step::Kind::put, names_.swept(), head.id}};
    const size_t end = std::min(begin + etcd::kMostSteps, steps.size());
    for (size_t i = begin; i < end; i++) transaction.steps.push_back(steps[i]);
    const Result<etcd::TransactionAnswer> done = client_.commit(transaction);
    if (!done || !done->held) return;
  }
}

Result<std::vector<Told>> Desk::plan(uint64_t revision, double seconds) {
  constexpr std::chrono::milliseconds kLook{100};
  constexpr int64_t kMore_s = 10;  // of the question's lease
  const auto deadline = Clock::now() + std::chrono::duration<double>(seconds);
  const Ask ask = {random_id(), revision, who_, unix_now()};
  const Result<etcd::LeaseAnswer> lease = client_.grant(static_cast<int64_t>(seconds) + kMore_s);
  if (!lease) return Error{lease.error()};
  const Result<etcd::TransactionAnswer> asked = client_.put(names_.ask(), text_of(ask), lease->id);
  if (!asked) return Error{asked.error()};
  std::vector<Told> told;
  while (true) {
    const Result<etcd::RangeAnswer> found = client_.all(names_.told(ask.id));
    if (!found) return Error{found.error()};
    told.clear();
    for (const etcd::KeyValue& pair : found->pairs) {
      if (Result<Told> one = read_told(pair.value); one) told.push_back(std::move(*one));
    }
    const Result<std::vector<Node>> nodes = this->nodes();
    if (!nodes) return Error{nodes.error()};
    const auto alive = static_cast<size_t>(
        std::count_if(nodes->begin(), nodes->end(), [](const Node& node) { return node.is_alive; }));
    if (told.size() >= alive || Clock::now() >= deadline) break;
    std::this_thread::sleep_for(kLook);
  }
  (void)client_.revoke(lease->id);
  return told;
}

Result<int64_t> Desk::add(const std::vector<NewEntry>& entries, uint64_t ttl_s, const std::string& comment) {
  Added added = {who_, "", comment, ttl_s, unix_now()};
  int64_t lease = 0;
  if (ttl_s != 0) {
    const Result<etcd::LeaseAnswer> granted = client_.grant(static_cast<int64_t>(ttl_s));
    if (!granted) return Error{granted.error()};
    lease = granted->id;
  }
  const std::string text = text_of(added);
  int64_t at = 0;
  for (size_t begin = 0; begin < entries.size(); begin += etcd::kMostSteps) {
    etcd::Transaction transaction;
    for (size_t i = begin; i < std::min(begin + etcd::kMostSteps, entries.size()); i++) {
      const std::string key = names_.entry(entries[i].list, entries[i].text);
      transaction.steps.push_back({Step::Kind::put, key, text, "", lease});
    }
    const Result<etcd::TransactionAnswer> done = client_.commit(transaction);
    if (!done) return Error{done.error()};
    at = done->revision;
  }
  return at;
}

// Nodes hear of what was deleted; of a key that was not there they hear nothing, so `at` is the last one's that was.
Result<Desk::Deleted> Desk::del(const std::vector<NewEntry>& entries) {
  Deleted deleted;
  for (const NewEntry& entry : entries) {
    const std::string key = names_.entry(entry.list, entry.text);
    while (true) {
      const Result<etcd::RangeAnswer> there = client_.get(key);
      if (!there) return Error{there.error()};
      if (there->pairs.empty()) {
        deleted.missing++;
        break;
      }
      const Result<etcd::TransactionAnswer> done =
          client_.commit({{{key, there->pairs[0].changed_at}}, {{Step::Kind::erase, key, ""}}, {}});
      if (!done) return Error{done.error()};
      if (!done->held) continue;  // somebody else changed it meanwhile
      deleted.deleted++;
      deleted.at = done->revision;
      break;
    }
  }
  return deleted;
}

Result<std::vector<Desk::Entry>> Desk::entries(const std::string& list) {
  const Result<etcd::RangeAnswer> found = client_.all(list.empty() ? names_.entries() : names_.entries_of(list));
  if (!found) return Error{found.error()};
  std::vector<Entry> entries;
  for (const etcd::KeyValue& pair : found->pairs) {
    const auto place = names_.entry_of(pair.key);
    Result<Added> added = read_added(pair.value);
    if (place && added) entries.push_back({place->list, place->text, std::move(*added), pair.lease});
  }
  return entries;
}

}  // namespace weir::control::fleet
