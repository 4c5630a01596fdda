#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/confine/helpers.h"
#include "control/enforce/past/added.h"
#include "control/enforce/past/feed_line.h"
#include "control/enforce/publish/history_files.h"
#include "control/lists/book/claims.h"
#include "control/lists/book/stored.h"
#include "control/lists/journal/journal.h"

// What was enforced at some time, and where entries come from: from the generations that are kept on disk.
namespace weir::control {

// Which generation is asked about: this one, or the one that was enforced then.
struct When {
  std::optional<uint64_t> generation;
  std::optional<int64_t> at;  // Unix seconds
};

// What a generation enforced, as far as it says something about the addresses that were asked about.
struct Then {
  GenerationRecord record;
  int64_t at = 0;            // the time asked about: of `at`, or when the generation was published
  Book book;                 // its lists, and of their entries those that hold the addresses, and flows
  std::vector<Added> added;  // those of them that were added
  weir_action default_action = WEIR_PASS, unparsed_action = WEIR_PASS;
  uint8_t tunnels = 0;  // mask of weir_tunnel
};

// One thread's: the historian's.
class Archive {
 public:
  // config: the path of policies that are read. parsers: null: they are parsed by this process.
  Archive(const std::string& state_dir, std::string config, const confine::Helpers* parsers)
      : files_(state_dir), config_(std::move(config)), parsers_(parsers) {}

  // runs: what is enforced now. Error: nothing is kept of that time, with the times that there are.
  Result<Then> find(const When& when, const Addresses& addresses, const Book& runs, uint64_t epoch, Journal& journal,
                    const GivenUp& is_given_up = {});

  // Fills the provenance of these entries, which a generation with this base had. added: those of its entries that were
  // added, as added_then() tells them. A question that is given up gets part of it.
  void trace(const std::vector<Origin*>& origins, const Book& book, const std::vector<Added>& added,
             wire::Generation generation, uint64_t base, const Addresses& addresses, Journal& journal,
             const GivenUp& is_given_up = {});

  // The snapshot of a generation, mapped; only such a one as is a base has one.
  Result<Store::Bytes> snapshot(wire::Generation generation) const { return files_.open_snapshot(generation); }

 private:
  // A kept generation whose book can be searched.
  struct Kept {
    std::string policy_text;
    Store::Bytes bytes;
    StoredBook book;
    bool is_checked;
    // Of its policy, when somebody wants to know.
    struct Rules {
      weir_action default_action, unparsed_action;
      uint8_t tunnels;
    };
    std::optional<Rules> rules;
  };
  // The generation that a question is about is checked whole, others only for being whole: of these it is asked where
  // an entry begins and ends, and reading fifty books for that takes longer than all else.
  enum class Check : uint8_t { all, ends };
  Result<Kept*> open(wire::Generation generation, Check check);
  std::vector<uint64_t> kept_bases(uint64_t epoch, Journal& journal) const;  // ascending
  Result<Kept::Rules> rules_of(Kept& kept);
  Error nothing_kept(const When& when, uint64_t epoch, Journal& journal);
  Moment moment_of(uint64_t number, uint64_t epoch, Journal& journal);
  void trace_files(const std::vector<Origin*>& origins, wire::Generation generation, uint64_t base,
                   const Addresses& addresses, Journal& journal, const GivenUp& is_given_up);
  void read_lines(const std::vector<Origin*>& origins, const Book& book, wire::Generation base,
                  const GivenUp& is_given_up);

  const HistoryFiles files_;
  const std::string config_;
  const confine::Helpers* const parsers_;
  std::map<uint64_t, std::unique_ptr<Kept>> kept_;  // by number
  uint64_t epoch_ = 0;                              // of all of them
  FeedLines lines_;
};

}  // namespace weir::control
