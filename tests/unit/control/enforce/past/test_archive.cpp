// What was enforced in a generation, and since when and until when, is what a model of the same random changes says.
#include <filesystem>
#include <set>

#include "control/enforce/past/archive.h"
#include "control/lists/book/disk.h"
#include "control/lists/journal/change.h"
#include "control/policy/model/columns.h"
#include "control/policy/model/edit.h"
#include "control/policy/model/range_text.h"
#include "tests/unit/control/lists/book/random_lists.h"
#include "tests/unit/folder.h"

namespace weir::control {
namespace {

constexpr uint64_t kEpoch = 7;
constexpr const char* kPolicy = "version: 1\npolicy: {default: drop}\nlists:\n- {name: files, action: drop}\n";

// One entry of a list as a text of its own, without its place.
std::set<std::string> shown(const List& list) {
  std::set<std::string> all;
  const auto add = [&](const auto& entry) {
    if (entry.source != kJournalSource) all.insert(shown_text(entry) + " " + std::to_string(entry.directions));
  };
  for (const Entry<Ipv4> entry : list.v4()) add(entry);
  for (const Entry<Ipv6> entry : list.v6()) add(entry);
  for (const Flow& flow : list.flows()) {
    const int sides = (flow.src ? WEIR_AS_SOURCE : 0) | (flow.dst ? WEIR_AS_DESTINATION : 0);
    all.insert(flow_text(flow) + " " + std::to_string(sides));
  }
  return all;
}

std::vector<std::string> told(const std::vector<Origin>& origins) {
  std::vector<std::string> all;
  for (const Origin& origin : origins) {
    all.push_back(origin.list + " " + origin.file + ":" + std::to_string(origin.line) + " " + origin.entry + " " +
                  std::to_string(origin.directions) + (origin.alone ? " alone" : ""));
  }
  return all;
}

// Does what controld does when it publishes: keeps the book of a reload, and what the journal changed.
struct History {
  Folder folder;
  HistoryFiles files{folder.path()};
  Journal journal = open_journal();
  std::map<uint64_t, Book> model;      // by generation: all that it enforced
  std::map<uint64_t, uint64_t> bases;  // of each
  uint64_t number = 0, base = 0;
  Book runs;

  Journal open_journal() const {
    Result<Journal> opened = Journal::open(folder.path());
    REQUIRE(opened);
    return std::move(*opened);
  }
  wire::Generation generation() const { return {kEpoch, number}; }

  void publish(const std::string& cause) {
    REQUIRE(journal.generations().add(kEpoch,
                                      {number, static_cast<int64_t>(1000 * number), cause, uint32_t{42}, base, {}}));
    REQUIRE(journal.commit());
    model[number] = runs;
    bases[number] = base;
  }

  void reload(List files_list) {
    base = ++number;
    List bans = runs.empty() ? List() : runs[0];
    bans.name = "bans";
    bans.dynamic = Dynamic{};
    bans.match = WEIR_AS_SOURCE | WEIR_AS_DESTINATION;
    runs = {bans, std::move(files_list)};
    const std::string bytes = write_book(runs);
    REQUIRE(Store::write_file(folder / "book.weir", generation(), std::as_bytes(std::span(bytes))));
    REQUIRE(files.keep(generation(), kPolicy));
    REQUIRE(journal.begin(generation()));
    publish("asked for");
  }

  void change(Change::Verb verb, const std::string& text, uint64_t now, const std::string& comment) {
    number++;
    Change change;
    change.verb = verb;
    change.entries = {text};
    change.uid = 42;
    change.comment = comment;
    EntriesEdit edit;
    REQUIRE(journal.begin(generation()));
    const Result<ChangeCounts> counts = apply(change, runs[0], now, journal, edit);
    if (!counts) FAIL(counts.error());
    runs[0].content = edited(runs[0].content, std::move(edit));
    publish(verb == Change::Verb::add ? "add" : "del");
  }
};

}  // namespace

TEST_CASE("of each generation the archive says what a model says") {
  RandomLists lists{std::mt19937_64(3)};
  size_t found = 0, added = 0, ended = 0;
  for (int round = 0; round < 8; round++) {
    History history;
    const auto random_ban = [&] {
      const std::string host = to_string(lists.address());
      return lists.below(3) == 0 ? host + "/30" : lists.below(4) == 0 ? "src " + host + " dport 443 proto tcp" : host;
    };
    const auto next_files = [&](const List* before) {
      List list = lists.list("files");
      if (before == nullptr) return list;
      ListDraft draft = draft_of(*before->content);  // most stays
      ListDraft more = draft_of(*list.content);
      for (size_t i = 0; i < 3 && !draft.v4.empty(); i++) draft.v4.erase(draft.v4.begin());
      for (size_t i = 0; i < std::min<size_t>(3, more.v4.size()); i++) draft.v4.push_back(more.v4[i]);
      list.content = make_entries(std::move(draft));
      return list;
    };
    history.reload(next_files(nullptr));
    for (int i = 0; i < 30; i++) {
      if (lists.below(5) == 0) {
        const List before = history.runs[1];
        history.reload(next_files(&before));
      } else if (lists.below(3) == 0 && !history.runs[0].content->v4.empty()) {
        const Entry<Ipv4> some = history.runs[0].v4()[lists.below(history.runs[0].v4().size())];
        const std::string text = entry_text(some, history.runs[0].match);
        history.change(Change::Verb::del, text, kNow, "");
      } else {
        std::string text = random_ban();
        const std::string host = text.substr(0, text.find('/'));
        if (text.find("/30") != std::string::npos) text = to_string(*parse_ipv4(host) & ~3u) + "/30";
        history.change(Change::Verb::add, text, kNow, "number " + std::to_string(i));
      }
    }
    Archive archive(history.folder.path(), "weir.yaml", nullptr);
    for (int asked = 0; asked < 60; asked++) {
      const uint64_t number = 1 + lists.below(history.number);
      const Ipv4 address = lists.address();
      const Addresses addresses = {{address}, {Ipv6{address}}};
      INFO("round " << round << ", generation " << number << ", " << to_string(address));
      const Result<Then> then =
          archive.find({number, static_cast<int64_t>(kNow)}, addresses, history.runs, kEpoch, history.journal);
      if (!then) FAIL(then.error());
      CHECK(then->record.number == number);
      CHECK(then->default_action == WEIR_DROP);
      const Book& model = history.model.at(number);
      std::vector<Origin> origins = claims_of(then->book, address, 443, kNow).origins;
      CHECK(told(origins) == told(claims_of(model, address, 443, kNow).origins));
      CHECK(told(claims_of(then->book, Ipv6{address}, 0, kNow).origins) ==
            told(claims_of(model, Ipv6{address}, 0, kNow).origins));

      std::vector<Origin*> pointers;
      for (Origin& origin : origins) pointers.push_back(&origin);
      archive.trace(pointers, then->book, then->added, {kEpoch, number}, then->record.base, addresses, history.journal);
      for (const Origin& origin : origins) {
        found++;
        const Provenance& from = *origin.provenance;
        const bool is_added = origin.source == kJournalSource;
        const std::string wanted = origin.entry + " " + std::to_string(origin.directions);
        const auto has = [&](uint64_t generation) {
          const Book& book = history.model.at(generation);
          if (!is_added) return shown(book[1]).contains(wanted);
          const AddressClaims claims = claims_of(book, address, 443, kNow);
          return std::any_of(claims.origins.begin(), claims.origins.end(), [&](const Origin& one) {
            return one.source == kJournalSource && one.entry == origin.entry && one.directions == origin.directions;
          });
        };
        // Of files only reloads count.
        uint64_t since = number, until = 0;
        while (since > 1 && has(since - 1)) since--;
        for (uint64_t after = number + 1; after <= history.number && until == 0; after++) {
          if (!has(after)) until = after;
        }
        CHECK(from.since.generation == since);
        CHECK((from.until ? from.until->generation : 0) == until);
        if (is_added) {
          added++;
          CHECK(from.added_by == 42u);
          CHECK(origin.comment.starts_with("number "));
        } else {
          CHECK(from.or_before == (since == 1));
        }
        ended += until != 0;
      }
    }
  }
  CHECK(found > 500);
  CHECK(added > 50);
  CHECK(ended > 100);
}

TEST_CASE("an entry that ended and was swept away was there before") {
  constexpr uint64_t kPast = 1'000'000'000;  // for who goes back, by the real clock
  History history;
  history.reload([] {
    List list;
    list.name = "files";
    return list;
  }());
  Change change;
  change.verb = Change::Verb::add;
  change.entries = {"192.0.2.1"};
  change.ttl_s = 60;
  EntriesEdit edit;
  history.number++;
  REQUIRE(history.journal.begin(history.generation()));
  REQUIRE(apply(change, history.runs[0], kPast, history.journal, edit));
  history.runs[0].content = edited(history.runs[0].content, std::move(edit));
  history.publish("add");
  const uint64_t with_it = history.number;
  // Swept in a transaction that publishes nothing, and in the next one something else is published.
  std::vector<EntriesEdit> edits(2);
  history.number++;
  REQUIRE(history.journal.begin(history.generation()));
  REQUIRE(sweep(history.runs, kPast + 100'000, history.journal, edits));
  REQUIRE(edits[0].removed.v4.size() == 1);
  history.runs[0].content = edited(history.runs[0].content, std::move(edits[0]));
  history.publish("sweep");

  Archive archive(history.folder.path(), "weir.yaml", nullptr);
  const Addresses addresses = {{*parse_ipv4("192.0.2.1")}, {}};
  const auto alone_at = [&](uint64_t number, uint64_t at) {
    const Result<Then> then =
        archive.find({number, static_cast<int64_t>(at)}, addresses, history.runs, kEpoch, history.journal);
    REQUIRE(then);
    const AddressClaims claims = claims_of(then->book, addresses.v4[0], 0, at);
    return claims.origins.empty() ? -1 : claims.origins[0].alone ? 1 : 0;
  };
  CHECK(alone_at(with_it, kPast + 1) == 1);
  CHECK(alone_at(with_it, kPast + 60) == 0);
  CHECK(alone_at(history.number, kPast + 1) == -1);
  CHECK(alone_at(1, kPast + 1) == -1);
  // Nobody gets it back by going back.
  REQUIRE(history.journal.begin({kEpoch, history.number + 1}));
  const auto back = history.journal.find_way_back({kEpoch, with_it}, {}, nullptr);
  REQUIRE(back);
  REQUIRE(history.journal.go_back(*back, history.number));
  CHECK(*history.journal.count("bans") == 0);
  history.journal.roll_back();
}

TEST_CASE("entries of one address on two sides have each their own origin") {
  History history;
  history.reload([] {
    List list;
    list.name = "files";
    return list;
  }());
  history.change(Change::Verb::add, "src 192.0.2.1", kNow, "of the source");
  history.change(Change::Verb::add, "dst 192.0.2.1", kNow, "of the destination");
  Archive archive(history.folder.path(), "weir.yaml", nullptr);
  const Addresses addresses = {{*parse_ipv4("192.0.2.1")}, {}};
  const Result<Then> then = archive.find({3, {}}, addresses, history.runs, kEpoch, history.journal);
  REQUIRE(then);
  std::vector<Origin> origins = claims_of(then->book, addresses.v4[0], 0).origins;
  REQUIRE(origins.size() == 2);
  archive.trace({&origins[0], &origins[1]}, then->book, then->added, {kEpoch, 3}, 1, addresses, history.journal);
  for (const Origin& origin : origins) {
    const bool is_source = origin.directions == WEIR_AS_SOURCE;
    CHECK(origin.comment == (is_source ? "of the source" : "of the destination"));
    CHECK(origin.provenance->since.generation == (is_source ? 2 : 3));
  }
}

TEST_CASE("a question that is given up reads no more generations") {
  History history;
  List list;
  list.name = "files";
  list.policy_path = "weir.yaml";
  ListDraft draft;
  draft.v4.push_back({1, 1, 1, 0, WEIR_AS_SOURCE, 0});
  list.content = make_entries(draft);
  for (int i = 0; i < 9; i++) history.reload(list);
  Archive archive(history.folder.path(), "weir.yaml", nullptr);
  const Addresses addresses = {{1}, {}};
  const Result<Then> then = archive.find({9, {}}, addresses, history.runs, kEpoch, history.journal);
  REQUIRE(then);
  std::vector<Origin> origins = claims_of(then->book, Ipv4{1}, 0).origins;
  REQUIRE(origins.size() == 1);
  const auto begins = [&](int patience) {
    int asked = 0;
    archive.trace({&origins[0]}, then->book, then->added, {kEpoch, 9}, 9, addresses, history.journal,
                  [&] { return asked++ >= patience; });
    CHECK(asked <= patience + 12);  // one for each generation that is opened, and the end of each loop
    return origins[0].provenance ? origins[0].provenance->since.generation : 0;
  };
  CHECK(begins(0) == 0);
  CHECK(begins(13) > 1);
  CHECK(begins(1000) == 1);
}

TEST_CASE("what is not kept is said, with what is") {
  History history;
  List list;
  list.name = "files";
  history.reload(list);
  history.reload(list);
  history.reload(list);
  auto archive = std::make_unique<Archive>(history.folder.path(), "weir.yaml", nullptr);
  const auto error_of = [&](const When& when) {
    const Result<Then> then = archive->find(when, {{1}, {}}, history.runs, kEpoch, history.journal);
    return then ? "generation " + std::to_string(then->record.number) : then.error();
  };
  CHECK(error_of({std::nullopt, 2999}) == "generation 2");
  CHECK(error_of({std::nullopt, 3000}) == "generation 3");
  CHECK(error_of({9, {}}).starts_with(
      "nothing is kept of generation 9: what is kept begins with generation 1, of 1970-"));
  CHECK(error_of({std::nullopt, 999}).starts_with("nothing is kept of 1970-01-01T00:16:39Z: "));
  std::filesystem::remove(history.folder / "history/1.book");
  std::filesystem::resize_file(history.folder / "history/2.book", 40);
  CHECK(error_of({1, {}}).find("what is kept begins with generation 2") != std::string::npos);
  archive = std::make_unique<Archive>(history.folder.path(), "weir.yaml", nullptr);  // as after a restart
  CHECK(error_of({2, {}}).find("2.book is cut off") != std::string::npos);
}

TEST_CASE("a generation that cannot be read says nothing of when an entry began") {
  History history;
  List list;
  list.name = "files";
  list.policy_path = "weir.yaml";
  ListDraft draft;
  draft.v4.push_back({1, 1, 1, 0, WEIR_AS_SOURCE, 0});
  list.content = make_entries(draft);
  for (int i = 0; i < 4; i++) history.reload(list);
  std::filesystem::resize_file(history.folder / "history/2.book", 40);
  Archive archive(history.folder.path(), "weir.yaml", nullptr);
  const Addresses addresses = {{1}, {}};
  const Result<Then> then = archive.find({3, {}}, addresses, history.runs, kEpoch, history.journal);
  REQUIRE(then);
  std::vector<Origin> origins = claims_of(then->book, Ipv4{1}, 0).origins;
  REQUIRE(origins.size() == 1);
  archive.trace({&origins[0]}, then->book, then->added, {kEpoch, 3}, 3, addresses, history.journal);
  CHECK(origins[0].provenance->since.generation == 1);
  CHECK(origins[0].provenance->or_before);
  CHECK_FALSE(origins[0].provenance->until);
}

}  // namespace weir::control
