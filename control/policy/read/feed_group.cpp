#include "control/policy/read/feed_group.h"

#include <fmt/format.h>
#include <glob.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <filesystem>

#include "common/clock.h"
#include "common/digest.h"
#include "control/policy/model/columns.h"
#include "control/policy/read/feed_parts.h"

namespace weir::control {

namespace {

constexpr const char* kUnfinished[] = {"~", ".new", ".part", ".swp", ".tmp"};

bool is_pattern(const std::string& text) {
  return text.find_first_of("*?[") != std::string::npos;
}

bool is_kind(const std::string& path, mode_t kind) {
  struct stat status {};
  return stat(path.c_str(), &status) == 0 && (status.st_mode & S_IFMT) == kind;
}

Result<std::vector<std::string>> matches(const std::string& pattern) {
  glob_t found = {};
  // A folder that cannot be read may hold what the pattern means: who is told "none" would take entries away.
  const int code = glob(pattern.c_str(), GLOB_ERR, nullptr, &found);
  const int reason = errno;
  std::vector<std::string> paths;
  if (code == 0) paths.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  globfree(&found);
  if (code == GLOB_NOSPACE) return Error{pattern + ": no memory"};
  if (code == GLOB_ABORTED) return Error{fmt::format("{}: a folder cannot be read ({})", pattern, strerror(reason))};
  return paths;
}

Result<std::vector<std::string>> files_in(const std::string& folder) {
  std::vector<std::string> paths;
  std::error_code error;
  for (std::filesystem::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    const bool is_done = std::none_of(std::begin(kUnfinished), std::end(kUnfinished),
                                      [&](const char* ending) { return name.ends_with(ending); });
    if (name.front() != '.' && is_done) paths.push_back(it->path().string());
  }
  if (error) return Error{fmt::format("cannot read the folder {} ({})", folder, error.message())};
  return paths;
}

}  // namespace

bool stands_for_several(const std::string& path) {
  if (is_kind(path, S_IFDIR)) return true;
  return (path.ends_with('/') || is_pattern(path)) && !is_kind(path, S_IFREG);
}

Result<std::vector<std::string>> feed_names(const std::string& path) {
  Result<std::vector<std::string>> names =
      path.ends_with('/') || is_kind(path, S_IFDIR) ? files_in(path) : matches(path);
  if (!names) return names;
  std::erase_if(*names, [](const std::string& name) { return !is_kind(name, S_IFREG); });
  std::sort(names->begin(), names->end());
  if (names->size() <= kMostFeedFiles) return names;
  return Error{fmt::format("{} stands for {} files, more than the {} that a list may have", path, names->size(),
                           kMostFeedFiles)};
}

std::vector<std::string> feed_folders(const std::string& path) {
  if (path.ends_with('/') || is_kind(path, S_IFDIR)) return {path};
  const std::string folder = std::filesystem::path(path).parent_path().string();
  if (!is_pattern(folder)) return {folder};
  const Result<std::vector<std::string>> found = matches(folder);
  std::vector<std::string> folders = found ? *found : std::vector<std::string>();
  std::erase_if(folders, [](const std::string& one) { return !is_kind(one, S_IFDIR); });
  return folders;
}

FileIdentity identity_of(const std::vector<std::string>& names) {
  PartsDigest digest;
  for (const std::string& name : names) digest.add(std::as_bytes(std::span(name.c_str(), name.size() + 1)));
  const Digest value = digest.value();
  return {.device = value[0], .inode = value[1], .size_bytes = names.size()};
}

namespace {

template <class Addr>
void append(std::vector<Entry<Addr>>& to, const std::vector<Entry<Addr>>& more, uint8_t source) {
  to.insert(to.end(), more.begin(), more.end());
  for (size_t i = to.size() - more.size(); i < to.size(); i++) to[i].source = source;
}

// The entries of each feed of a list: feed i in draft i, as if it were the only one.
std::vector<ListDraft> split(const List& list, size_t feeds) {
  std::vector<ListDraft> drafts(feeds);
  const auto deal = [&](const auto& rows, auto member) {
    for (auto entry : rows) {
      if (entry.source == 0 || entry.source > feeds) continue;
      ListDraft& draft = drafts[entry.source - 1];
      entry.source = 1;
      (draft.*member).push_back(entry);
    }
  };
  deal(list.as_written()->v4, &ListDraft::v4);
  deal(list.as_written()->v6, &ListDraft::v6);
  return drafts;
}

const List* find_list(const Book& book, const std::string& name) {
  const auto found = std::find_if(book.begin(), book.end(),
                                  [&](const List& list) { return list.name == name && !list.feeds().empty(); });
  return found == book.end() ? nullptr : &*found;
}

class GroupReader {
 public:
  GroupReader(const FeedRequest& request, const ListDraft& exempt, const FeedHistory& history, List& list)
      : request_(request),
        exempt_(exempt),
        history_(history),
        list_(list),
        is_accepted_(history.accept.contains(list.name)),
        options_(request.options) {
    options_.guard.min_entries = std::min<uint64_t>(options_.guard.min_entries, 1);
    if (history.book != nullptr) before_ = find_list(*history.book, list.name);
    if (before_ == nullptr) return;
    had_ = before_->feeds();
  }

  FeedOutcome read(ListDraft own, uint64_t own_widened) {
    const Result<std::vector<std::string>> names = feed_names(request_.path);
    list_.feed.path = request_.path;
    list_.ipv6_widened = own_widened;
    if (names && is_unchanged(*names)) {
      list_.files = before_->files;
      list_.content = replace_own(before_->as_written(), std::move(own));
      sum_up();
      return std::move(outcome_);
    }
    if (before_ != nullptr) entries_ = split(*before_, had_.size());
    if (!names) {
      keep_all({names.error(), "look at the folder"});
    } else if (names->empty()) {
      keep_all({request_.path + " stands for no file", "a relative path begins at the folder of the policy"});
    } else {
      for (const std::string& name : *names) take(name);
      take_gone(*names);
      check_sum();
    }
    finish(std::move(own));
    return std::move(outcome_);
  }

 private:
  bool is_same_file(const FeedFile& had, const std::string& name) const {
    return history_.is_ours && !is_accepted_ && !had.refusal && had.feed.path == name && had.state.settled &&
           had.state.options == options_ && control::identity_of(name) == had.state.file;
  }

  bool is_unchanged(const std::vector<std::string>& names) const {
    if (before_ == nullptr || before_->files.empty() || before_->feed.path != request_.path) return false;
    return std::equal(names.begin(), names.end(), had_.begin(), had_.end(),
                      [&](const std::string& name, const FeedFile& had) { return is_same_file(had, name); });
  }

  // Of which feed of before it is the file; had_.size(): of none.
  size_t place_of(const std::string& name) const {
    const auto is_it = [&](const FeedFile& had) { return had.feed.path == name; };
    return static_cast<size_t>(std::find_if(had_.begin(), had_.end(), is_it) - had_.begin());
  }

  void add(FeedFile file, const std::vector<Entry<Ipv4>>& v4, const std::vector<Entry<Ipv6>>& v6) {
    list_.files.push_back(std::move(file));
    const auto source = static_cast<uint8_t>(list_.files.size());
    append(all_.v4, v4, source);
    append(all_.v6, v6, source);
  }

  void take(const std::string& name) {
    const size_t place = place_of(name);
    const bool is_known = place < had_.size();
    if (is_known && is_same_file(had_[place], name)) {
      return add(had_[place], entries_[place].v4, entries_[place].v6);
    }
    // Told again when whoever writes it has closed it.
    if (!is_known && history_.is_being_written && history_.is_being_written(name)) return;

    Book before;
    if (is_known && had_[place].state.taken_at != 0) {
      List& was = before.emplace_back();
      was.name = list_.name;
      was.feed = had_[place].feed;
      was.feed_state = had_[place].state;
      was.refusal = had_[place].refusal;
      was.content = make_entries(std::move(entries_[place]));
    }
    FeedHistory history = history_;
    history.book = &before;
    FeedRequest request = request_;
    request.path = name;
    request.options = options_;
    List one;
    one.name = list_.name;
    FeedOutcome outcome = read_feed(request, {}, 0, exempt_, history, one);
    for (Complaint& warning : outcome.warnings) outcome_.warnings.push_back(std::move(warning));
    if (outcome.error) {
      one.feed.path = name;
      one.refusal = refusal_of(*outcome.error, name, is_known ? had_[place].refusal : std::nullopt);
    }
    const ListDraft entries = draft_of(*one.content);
    add({one.feed, one.feed_state, one.refusal}, entries.v4, entries.v6);
  }

  static FeedRefusal refusal_of(const Complaint& complaint, const std::string& path,
                                const std::optional<FeedRefusal>& before) {
    const bool is_again = before && before->reason == complaint.reason;
    return {path, complaint.reason, complaint.hint, is_again ? before->since : unix_now()};
  }

  // What the list had of it.
  void keep(size_t place, const Complaint& complaint) {
    FeedFile file = had_[place];
    file.refusal = refusal_of(complaint, file.feed.path, file.refusal);
    add(std::move(file), entries_[place].v4, entries_[place].v6);
  }

  void keep_all(const Complaint& complaint) {
    list_.files.clear();
    all_ = {};
    if (had_.empty()) outcome_.error = complaint;
    for (size_t place = 0; place < had_.size(); place++) keep(place, complaint);
  }

  uint64_t entries_now() const {
    uint64_t sum = 0;
    for (const FeedFile& file : list_.files) sum += file.feed.entries;
    return sum;
  }

  // Of the feeds that were there, those that no name stands for any more.
  void take_gone(const std::vector<std::string>& names) {
    if (before_ == nullptr || before_->feed.path != request_.path) return;  // the policy is another one
    uint64_t had = 0;
    std::vector<size_t> gone;
    for (size_t place = 0; place < had_.size(); place++) {
      had += had_[place].feed.entries;
      const bool is_there = std::binary_search(names.begin(), names.end(), had_[place].feed.path);
      if (!is_there && had_[place].feed.entries != 0) gone.push_back(place);
    }
    const double left = static_cast<double>(entries_now()), most = options_.guard.max_shrink;
    const bool is_too_much = static_cast<double>(had) * (1 - most) > left && !is_accepted_;
    for (const size_t place : gone) {
      const FeedFile& file = had_[place];
      if (!is_too_much || file.state.options != options_ || list_.files.size() == kMostFeedFiles) {
        outcome_.warnings.push_back(
            {fmt::format("{} is gone, and {} entries with it", file.feed.path, file.feed.entries),
             "bring it back if that was not meant"});
        continue;
      }
      keep(place, {fmt::format("{} is gone: the list would have {} entries instead of {} (guard: max_shrink {:.4g}%)",
                               file.feed.path, left, had, most * 100),
                   accept_hint("bring it back")});
    }
  }

  std::string accept_hint(const char* first) const {
    return fmt::format("{}; or take it as it is: `controlctl feeds --accept {}`", first, list_.name);
  }

  void check_sum() {
    const uint64_t least = request_.options.guard.min_entries, now = entries_now();
    if (now >= least || is_accepted_) return;
    if (before_ == nullptr && std::any_of(list_.files.begin(), list_.files.end(),
                                          [](const FeedFile& file) { return file.refusal.has_value(); })) {
      return;  // which says more
    }
    entries_ = before_ == nullptr ? std::vector<ListDraft>() : split(*before_, had_.size());
    keep_all({fmt::format("{} holds {} entries, fewer than {} (guard: min_entries)", request_.path, now, least),
              accept_hint("look at the files")});
  }

  // A list that never had any content, and gets none.
  void check_none() {
    const auto refused = std::find_if(list_.files.begin(), list_.files.end(),
                                      [](const FeedFile& file) { return file.refusal && file.state.taken_at == 0; });
    const bool has_any = std::any_of(list_.files.begin(), list_.files.end(),
                                     [](const FeedFile& file) { return file.state.taken_at != 0; });
    if (!outcome_.error && !has_any && refused != list_.files.end()) {
      outcome_.error = Complaint{refused->refusal->reason, refused->refusal->hint};
    }
  }

  void sum_up() {
    FeedReport& sum = list_.feed;
    for (const FeedFile& file : list_.files) {
      sum.lines += file.feed.lines;
      sum.entries += file.feed.entries;
      sum.bad += file.feed.bad;
      sum.skipped += file.feed.skipped;
      sum.host_bits += file.feed.host_bits;
      list_.ipv6_widened += file.state.ipv6_widened;
      if (!file.feed.format.empty() && file.feed.format != sum.format) {
        sum.format = sum.format.empty() ? file.feed.format : "several";
      }
    }
  }

  void finish(ListDraft own) {
    check_none();
    sum_up();
    append(all_.v4, own.v4, 0);
    append(all_.v6, own.v6, 0);
    all_.flows = std::move(own.flows);
    all_.comments = std::move(own.comments);
    list_.content = make_entries(std::move(all_));
  }

  const FeedRequest& request_;
  const ListDraft& exempt_;
  const FeedHistory& history_;
  List& list_;
  const bool is_accepted_;
  FeedOptions options_;             // of each
  const List* before_ = nullptr;    // which had a feed, or several
  std::vector<FeedFile> had_;       // its feeds
  std::vector<ListDraft> entries_;  // of each
  ListDraft all_;                   // of the feeds
  FeedOutcome outcome_;
};

}  // namespace

FeedOutcome read_feed_group(const FeedRequest& request, ListDraft own, uint64_t own_widened, const ListDraft& exempt,
                            const FeedHistory& history, List& list) {
  return GroupReader(request, exempt, history, list).read(std::move(own), own_widened);
}

}  // namespace weir::control
