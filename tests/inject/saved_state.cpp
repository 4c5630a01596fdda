// What the two programs would take from a state folder when they started: their own code for it, without all the rest.
// Lines `controld FOLDER` and `dataplane FOLDER` come in, a line of JSON each goes out. tests/rig/faults/power_cuts.py
// asks about thousands of folders; some of them the programs themselves are started on, too.
#include <fmt/format.h>

#include <iostream>
#include <string>
#include <vector>

#include "control/enforce/publish/generation.h"
#include "control/enforce/publish/in_force.h"
#include "control/enforce/publish/open_snapshot.h"
#include "control/enforce/publish/store.h"
#include "dataplane/start/state_dir.h"
#include "filter/read/overlay.h"
#include "filter/read/receive.h"
#include "filter/read/view.h"

namespace weir {
namespace {

// "error" is why the program would not start, "refused" why it would do without a file.
class Answer {
 public:
  void set(const char* name, const std::string& text) {
    members_ += fmt::format(", \"{}\": \"{}\"", name, plain(text));
  }
  void set(const char* name, uint64_t number) { members_ += fmt::format(", \"{}\": {}", name, number); }
  void set(const char* name, const wire::Generation& generation) {
    members_ += fmt::format(", \"{}\": [\"{:016x}\", {}]", name, generation.epoch, generation.number);
  }
  void refuse(const std::string& why) { refused_ += (refused_.empty() ? "" : "; ") + why; }
  std::string text() const { return fmt::format("{{\"refused\": \"{}\"{}}}", plain(refused_), members_); }

 private:
  static std::string plain(std::string text) {
    for (char& c : text) {
      if (c == '"' || c == '\\' || static_cast<unsigned char>(c) < ' ') c = '\'';
    }
    return text;
  }
  std::string refused_, members_;
};

// As control/daemon/daemon.cpp starts.
Answer look_as_controld(const std::string& folder) {
  Answer answer;
  Result<control::Store> store = control::Store::open(folder);
  if (!store) return answer.set("error", store.error()), answer;
  Result<control::GenerationFile> numbers = control::GenerationFile::open(folder);
  if (!numbers) return answer.set("error", numbers.error()), answer;
  if (const Result<wire::Generation> stored = store->stored_generation()) {
    if (const Result<void> checked = numbers->not_behind(*stored); !checked) answer.set("error", checked.error());
  }
  if (!numbers->notice().empty()) answer.refuse(numbers->notice());
  const Result<std::optional<control::InForce>> in_force = control::read_in_force(folder);
  if (!in_force) answer.refuse(in_force.error());
  answer.set("last", numbers->last());
  answer.set("knows_targets", in_force && in_force->has_value() ? 1 : 0);
  answer.set("bypass", store->bypass() ? 1 : 0);
  Result<std::optional<control::Publication>> loaded = store->load();
  if (!loaded) {
    answer.refuse(loaded.error());
  } else if (loaded->has_value()) {
    answer.set("enforced", (*loaded)->generation);
  }
  return answer;
}

struct alignas(64) Line {
  std::byte bytes[64];
};

// A saved snapshot, or overlay.
struct Loaded {
  std::vector<Line> lines;
  Digest digest = {};
  filter::SnapshotView view;
};

// load(bytes): as StateDir's.
template <class Load>
Result<Loaded> load(size_t size_bytes, Load load_bytes) {
  Loaded loaded;
  loaded.lines.resize((size_bytes + sizeof(Line) - 1) / sizeof(Line));
  const std::span<std::byte> bytes = std::as_writable_bytes(std::span(loaded.lines)).first(size_bytes);
  const Result<Digest> digest = load_bytes(bytes);
  if (!digest) return Error{digest.error()};
  loaded.digest = *digest;
  if (const Result<void> good = filter::check_digest(bytes, *digest); !good) return Error{good.error()};
  Result<filter::SnapshotView> view = filter::SnapshotView::open(bytes);
  if (!view) return Error{view.error()};
  loaded.view = *view;
  return loaded;
}

wire::Generation generation_of(const Loaded& loaded) {
  return {loaded.view.header().epoch, loaded.view.header().number};
}

// As dataplane/main.cpp and dataplane/snapshot/saved.cpp start.
Answer look_as_dataplane(const std::string& folder) {
  Answer answer;
  const Result<dataplane::StateDir> state = dataplane::StateDir::open(folder);
  if (!state) return answer.set("error", state.error()), answer;
  const Result<bool> bypass = state->load_bypass();
  if (!bypass) answer.refuse(bypass.error());
  answer.set("bypass", bypass && *bypass ? 1 : 0);
  const Result<std::optional<size_t>> size = state->saved_snapshot_size();
  if (!size) answer.refuse(size.error());
  if (!size || !size->has_value()) return answer;
  const Result<Loaded> base = load(**size, [&](std::span<std::byte> bytes) { return state->load_snapshot(bytes); });
  if (!base) return answer.refuse(base.error()), answer;

  wire::Generation enforced = generation_of(*base);
  const Result<std::optional<size_t>> overlay_size = state->saved_overlay_size(enforced);
  if (!overlay_size) {
    answer.refuse(overlay_size.error());
  } else if (overlay_size->has_value()) {
    const Result<Loaded> overlay = load(
        **overlay_size, [&](std::span<std::byte> bytes) { return state->load_overlay(generation_of(*base), bytes); });
    Result<void> good;
    if (!overlay) {
      good = Error{overlay.error()};
    } else {
      good = filter::check_overlay(base->view, base->digest, overlay->view);
    }
    if (!good)
      answer.refuse(good.error());
    else
      enforced = generation_of(*overlay);
  }
  answer.set("enforced", enforced);
  return answer;
}

}  // namespace
}  // namespace weir

int main() {
  std::string line;
  while (std::getline(std::cin, line)) {
    const size_t blank = line.find(' ');
    if (blank == std::string::npos) return 2;
    const std::string folder = line.substr(blank + 1);
    const bool is_controld = line.compare(0, blank, "controld") == 0;
    const weir::Answer answer = is_controld ? weir::look_as_controld(folder) : weir::look_as_dataplane(folder);
    std::cout << answer.text() << std::endl;
  }
}
