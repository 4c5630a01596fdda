// The data plane beside the reference, in numbers: random policies with random and mutated frames, or captures with
// policies of real lists. Prints what was compared as JSON; exit 1 when anything differed.

#include <fmt/format.h>
#include <pcap/pcap.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <mutex>
#include <thread>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "control/compile/compile.h"
#include "control/policy/read/policy.h"
#include "filter/layouts/layout.h"
#include "tests/agreement/agreement.h"
#include "tests/agreement/random_policy.h"
#include "tests/agreement/run.h"

namespace weir::agreement {
namespace {

using Json = nlohmann::json;

struct Totals {
  Compared all;
  uint64_t policies = 0, policies_in_band = 0, in_band_packets = 0, disagreements = 0;

  Json json() const {
    Json layouts = Json::array();
    for (const filter::Layout& layout : filter::all_layouts()) {
      if (all.layouts >> layout.id & 1) layouts.push_back(layout.name);
    }
    return {{"policies", policies},
            {"packets", all.packets},
            {"hits", all.hits},
            {"layered", all.layered},
            {"dropped", all.dropped},
            {"malformed", all.malformed},
            {"incomplete", all.incomplete},
            {"by_xdp", all.by_xdp},
            {"layouts", layouts},
            {"disagreements", disagreements},
            {"policies_in_band", policies_in_band},
            {"packets_in_band", in_band_packets}};
  }
};

double share(uint64_t part, uint64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

// One policy and its frames. The share of frames with known addresses is steered so that about half of them hit.
std::optional<std::string> run_policy(uint64_t seed, uint64_t packets, XdpPlane* xdp, Compared& compared) {
  constexpr size_t kAtOnce = 256;
  Choices choices(seed);
  const std::string text = random_policy(choices);
  Diagnostics diagnostics;
  const auto policy = control::parse_policy("random.yaml", text, diagnostics);
  if (!policy) return "the policy is refused: " + format(diagnostics) + text;
  auto agreement = Agreement::open(*policy, seed, xdp);
  if (!agreement) return agreement.error() + "\n" + text;
  FrameMaker maker(*policy);
  std::vector<Frame> frames(kAtOnce);
  unsigned known = 50;
  while ((*agreement)->compared().packets < packets) {
    maker.set_known_percent(known);
    const uint64_t hits_before = (*agreement)->compared().hits;
    for (Frame& frame : frames) maker.make(choices, frame);
    const uint64_t now = kNow + choices.below(3) - 1;
    const auto differs = (*agreement)->judge(frames, now, choices);
    compared = (*agreement)->compared();
    if (differs) {
      return fmt::format("at time {}: {}\npolicy:\n{}", now, *differs, text);
    }
    const uint64_t hits = (*agreement)->compared().hits - hits_before;
    if (hits > kAtOnce * 6 / 10 && known > 0) known -= known > 10 ? 5 : 1;
    if (hits < kAtOnce * 4 / 10 && known < 100) known += known < 10 ? 1 : 5;
  }
  if (auto problem = (*agreement)->check_counters()) return *problem + "\npolicy:\n" + text;
  return std::nullopt;
}

int run_random(uint64_t wanted, uint64_t packets, uint64_t first_seed, unsigned n_threads, bool only_one,
               bool with_xdp) {
  Totals totals;
  std::mutex mutex;
  std::atomic<uint64_t> next_seed = first_seed;
  auto told = std::chrono::steady_clock::now();
  const auto work = [&] {
    const std::unique_ptr<XdpPlane> xdp = open_xdp(with_xdp);
    for (;;) {
      const uint64_t seed = next_seed++;
      Compared compared;
      {
        const std::lock_guard lock(mutex);
        if (totals.policies_in_band >= wanted || (only_one && seed != first_seed)) return;
      }
      const auto problem = run_policy(seed, packets, xdp.get(), compared);
      const std::lock_guard lock(mutex);
      totals.policies++;
      totals.all += compared;
      totals.disagreements += compared.disagreements;
      if (problem) {
        totals.disagreements += compared.disagreements == 0;  // a policy or its counters
        tell(fmt::format("seed {}: {}", seed, *problem));
      }
      const double hits = share(compared.hits, compared.packets);
      if (hits >= 0.2 && hits <= 0.8) {
        totals.policies_in_band++;
        totals.in_band_packets += compared.packets;
      }
      const auto now = std::chrono::steady_clock::now();
      if (now - told < std::chrono::seconds(10)) continue;
      told = now;
      tell(fmt::format("{} of {} policies, {:.1f} M packets, {} disagreements", totals.policies_in_band, wanted,
                       static_cast<double>(totals.all.packets) / 1e6, totals.disagreements));
    }
  };
  std::vector<std::thread> threads;
  for (unsigned t = 1; t < n_threads; t++) threads.emplace_back(work);
  work();
  for (std::thread& thread : threads) thread.join();
  fmt::print("{}\n", totals.json().dump());
  return totals.disagreements == 0 ? 0 : 1;
}

// Frames of an Ethernet capture; empty with the reason when it is none.
Result<std::vector<Frame>> read_frames(const std::string& path) {
  char why[PCAP_ERRBUF_SIZE] = {};
  pcap_t* capture = pcap_open_offline(path.c_str(), why);
  if (capture == nullptr) return Error{std::string(why)};
  std::vector<Frame> frames;
  pcap_pkthdr* header;
  const u_char* bytes;
  const bool ethernet = pcap_datalink(capture) == DLT_EN10MB;
  while (ethernet && pcap_next_ex(capture, &header, &bytes) == 1) {
    if (header->caplen <= UINT16_MAX) frames.emplace_back(bytes, bytes + header->caplen);
  }
  pcap_close(capture);
  if (!ethernet) return Error{"not Ethernet"};
  return frames;
}

int run_captures(const std::vector<std::string>& configs, const std::string& folder, uint64_t now, bool with_xdp) {
  const std::unique_ptr<XdpPlane> xdp = open_xdp(with_xdp);
  std::vector<Frame> frames;
  unsigned captures = 0, skipped = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    auto read = read_frames(entry.path());
    if (!read) {
      skipped++;
      continue;
    }
    captures++;
    for (Frame& frame : *read) frames.push_back(std::move(frame));
  }
  Totals totals;
  Json per_policy = Json::array();
  for (const std::string& config : configs) {
    Diagnostics diagnostics;
    const auto policy = control::read_policy(config, diagnostics);
    if (!policy) {
      tell(format(diagnostics));
      return 2;
    }
    auto agreement = Agreement::open(*policy, 1, xdp.get());
    if (!agreement) {
      tell(config + ": " + agreement.error());
      return 2;
    }
    Choices cuts(uint64_t{1});
    // In bursts, so that one that differs does not hide the others.
    for (size_t begin = 0; begin < frames.size(); begin += dataplane::kMaxBurst) {
      const size_t n = std::min<size_t>(dataplane::kMaxBurst, frames.size() - begin);
      if (auto problem = (*agreement)->judge(std::span(frames).subspan(begin, n), now, cuts))
        tell(config + ": " + *problem);
    }
    if (auto problem = (*agreement)->check_counters()) {
      totals.disagreements++;
      tell(config + ": " + *problem);
    }
    totals.policies++;
    const Compared& compared = (*agreement)->compared();
    totals.disagreements += compared.disagreements;
    totals.all += compared;
    per_policy.push_back(
        {{"config", config}, {"hits", compared.hits}, {"dropped", compared.dropped}, {"layered", compared.layered}});
    tell(fmt::format("{}: {} frames, {} match, {} dropped, {} disagreements so far", config, compared.packets,
                     compared.hits, compared.dropped, totals.disagreements));
  }
  Json json = totals.json();
  json["captures"] = captures;
  json["other_files"] = skipped;
  json["each"] = per_policy;
  fmt::print("{}\n", json.dump());
  return totals.disagreements == 0 ? 0 : 1;
}

// Every policy is sound, so each must be built and proven, whatever the secret.
int run_sound(uint64_t policies, uint64_t publications, uint64_t first_seed, unsigned n_threads) {
  std::mutex mutex;
  std::atomic<uint64_t> next_seed = first_seed;
  uint64_t published = 0, refused = 0, shapes = 0, few = 0;
  auto told = std::chrono::steady_clock::now();
  const auto work = [&] {
    for (uint64_t seed = next_seed++; seed < first_seed + policies; seed = next_seed++) {
      Choices choices(seed);
      const std::string text = random_policy(choices);
      Diagnostics diagnostics;
      const auto policy = control::parse_policy("random.yaml", text, diagnostics);
      uint64_t refused_here = policy ? 0 : publications;
      std::string why = policy ? "" : format(diagnostics);
      control::CompileReport report;
      for (uint64_t number = 1; policy && number <= publications; number++) {
        Result<control::Compiled> compiled = control::compile(*policy, {1, number});
        if (compiled) {
          report = std::move(compiled->report);
          continue;
        }
        refused_here++;
        why = compiled.error();
      }
      const std::lock_guard lock(mutex);
      published += publications;
      refused += refused_here;
      for (const control::ShapeReport& shape : report.shapes) {
        shapes += publications;
        if (shape.shape.layout != WEIR_LAYOUT_BITMAP && shape.shape.n_keys < 1000) few += publications;
      }
      if (refused_here != 0)
        tell(fmt::format("seed {}: {} of {}: {}\n{}", seed, refused_here, publications, why, text));
      const auto now = std::chrono::steady_clock::now();
      if (now - told < std::chrono::seconds(10)) continue;
      told = now;
      tell(fmt::format("{} of {} publications, {} refused", published, policies * publications, refused));
    }
  };
  std::vector<std::thread> threads;
  for (unsigned t = 1; t < n_threads; t++) threads.emplace_back(work);
  work();
  for (std::thread& thread : threads) thread.join();
  const Json json = {{"policies", policies},
                     {"publications", published},
                     {"refused", refused},
                     {"filters", shapes},
                     {"of_few_keys", few}};
  fmt::print("{}\n", json.dump());
  return refused == 0 ? 0 : 1;
}

}  // namespace
}  // namespace weir::agreement

int main(int argc, char** argv) {
  CLI::App app{"The data plane's stages, and the XDP program, beside the reference classifier."};
  app.require_subcommand(1);
  uint64_t policies = 1000, packets = 100'000, seed = 1, now = weir::agreement::kNow;
  unsigned threads = std::max(1u, std::thread::hardware_concurrency());
  bool only_one = false, xdp = false;
  app.add_flag("--xdp", xdp, "the XDP program, too (root)");
  CLI::App* random = app.add_subcommand("random", "random policies, random and mutated frames");
  random->add_option("--policies", policies, "so many whose share of hits is 20 to 80 %")->capture_default_str();
  random->add_option("--packets", packets, "of each")->capture_default_str();
  random->add_option("--seed", seed, "of the first policy")->capture_default_str();
  random->add_option("--threads", threads)->capture_default_str();
  random->add_flag("--only", only_one, "the policy of this seed alone");
  CLI::App* sound = app.add_subcommand("sound", "random policies, built and proven again and again with new secrets");
  uint64_t publications = 100;
  sound->add_option("--policies", policies)->capture_default_str();
  sound->add_option("--publications", publications, "of each")->capture_default_str();
  sound->add_option("--seed", seed, "of the first policy")->capture_default_str();
  sound->add_option("--threads", threads)->capture_default_str();
  CLI::App* sequences = app.add_subcommand("sequences", "random policies that change, as overlays and new bases");
  uint64_t changes = 100'000, steps = 200;
  sequences->add_option("--changes", changes, "entries that were added, deleted, ended or came with a feed")
      ->capture_default_str();
  sequences->add_option("--steps", steps, "of each policy")->capture_default_str();
  sequences->add_option("--seed", seed, "of the first policy")->capture_default_str();
  sequences->add_option("--threads", threads)->capture_default_str();
  sequences->add_flag("--only", only_one, "the policy of this seed alone");
  CLI::App* updates = app.add_subcommand("updates", "versions of a feed as changes, beside snapshots built anew");
  std::vector<std::string> files;
  updates->add_option("FILE", files, "in their order; gzip, xz and zstd are unpacked")->required();
  std::vector<std::string> configs;
  std::string folder;
  CLI::App* captures = app.add_subcommand("captures", "every Ethernet capture below a folder, with policies");
  captures->add_option("FOLDER", folder)->required()->check(CLI::ExistingDirectory);
  captures->add_option("--config", configs)->required();
  captures->add_option("--now", now, "Unix seconds")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  if (sound->parsed()) return weir::agreement::run_sound(policies, publications, seed, threads);
  if (sequences->parsed()) return weir::agreement::run_sequences({changes, steps, seed, threads, only_one}, xdp);
  if (updates->parsed()) return weir::agreement::run_versions(files, xdp);
  return random->parsed() ? weir::agreement::run_random(policies, packets, seed, threads, only_one, xdp)
                          : weir::agreement::run_captures(configs, folder, now, xdp);
}
