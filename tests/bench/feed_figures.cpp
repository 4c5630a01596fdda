// What is said of feeds in figures, as one line of JSON:
//   feed_figures torture FOLDER   every format as it should be, cut at 100 places, random bytes, an HTML page, empty,
//   and
//                                 more than ten times as long, each after the feed as it should be was taken: files in
//                                 FOLDER, read as a reload reads them, by processes of their own
//   feed_figures speed            text of a plain feed to entries, on this core alone, beside the reader of before
//   feed_figures tables           how many formats and structures have a name
#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <random>
#include <set>

#include "common/clock.h"
#include "control/policy/feeds/reading.h"
#include "control/policy/feeds/structures.h"
#include "control/policy/read/parsers.h"
#include "control/policy/read/policy.h"
#include "tests/bench/plain_before.h"

namespace weir::control {
namespace {

using Hosts = std::vector<std::string>;

std::string joined(const Hosts& hosts, const std::string& before, const std::string& after) {
  std::string all;
  for (const std::string& host : hosts) all += before + host + after;
  return all;
}
std::string without_last(std::string text, size_t n) {
  text.resize(text.size() - n);
  return text;
}

// A feed of each format that holds these hosts. A format without a row here is a failure.
struct Sample {
  const char* format;
  std::function<std::string(const Hosts&)> text;
  bool knows_its_end = false;  // whatever is cut off is seen
  bool is_named = false;       // `auto` takes it for another format
};
const std::vector<Sample>& samples() {
  static const std::vector<Sample> kSamples = {
      {"plain", [](const Hosts& hosts) { return "# a list\n" + joined(hosts, "", "\n"); }},
      {"p2p",
       [](const Hosts& hosts) {
         std::string text;
         for (const std::string& host : hosts) text += "name:" + host + "-" + host + "\n";
         return text;
       }},
      {"dat",
       [](const Hosts& hosts) {
         std::string text;
         for (const std::string& host : hosts) text += host + " - " + host + " , 000 , name\n";
         return text;
       }},
      {"ipset", [](const Hosts& hosts) { return "create a hash:ip family inet\n" + joined(hosts, "add a ", "\n"); }},
      {"nft",
       [](const Hosts& hosts) {
         return "table inet t {\n set s {\n  elements = {\n" + without_last(joined(hosts, "   ", ",\n"), 2) +
                "\n } }\n}\n";
       },
       true},
      {"nginx", [](const Hosts& hosts) { return joined(hosts, "deny ", ";\n"); }},
      {"iproute", [](const Hosts& hosts) { return joined(hosts, "ip route add blackhole ", "\n"); }},
      {"zeek",
       [](const Hosts& hosts) {
         return "#fields\tindicator\tindicator_type\tmeta.source\n" + joined(hosts, "", "\tIntel::ADDR\tx\n");
       }},
      {"csv",
       [](const Hosts& hosts) {
         return "\"seen\",\"ip\",\"what\"\n" + joined(hosts, "\"2026-01-02\",\"", "\",\"a, 9.9.9.9\"\n");
       }},
      {"json",
       [](const Hosts& hosts) {
         return "[\n" + without_last(joined(hosts, "{\"ip\": \"", "\", \"n\": 1},\n"), 2) + "]\n";
       },
       true},
      {"jsonl", [](const Hosts& hosts) { return joined(hosts, "{\"ip\": \"", "\", \"n\": 1}\n"); }},
      {"spamhaus",
       [](const Hosts& hosts) {
         return joined(hosts, "{\"cidr\":\"", "\",\"rir\":\"x\"}\n") +
                fmt::format("{{\"type\":\"metadata\",\"records\":{}}}\n", hosts.size());
       }},
      {"misp",
       [](const Hosts& hosts) {
         return "{\"description\": \"9.9.9.9\", \"list\": [\n" + without_last(joined(hosts, "\"", "\",\n"), 2) +
                "],\n\"matching_attributes\": [\"ip-src\"]}\n";
       },
       true},
      {"crowdsec",
       [](const Hosts& hosts) {
         return "[" +
                without_last(
                    joined(hosts, "{\"duration\":\"4000h\",\"scope\":\"Ip\",\"type\":\"ban\",\"value\":\"", "\"},\n"),
                    2) +
                "]\n";
       },
       true},
      {"rir",
       [](const Hosts& hosts) {
         return fmt::format("2|ripencc|20260101|{0}|19830705|20260101|+0100\nripencc|*|ipv4|*|{0}|summary\n",
                            hosts.size()) +
                joined(hosts, "ripencc|ZZ|ipv4|", "|1|20200101|assigned\n");
       },
       true},
      {"aws",
       [](const Hosts& hosts) {
         return "{\"syncToken\":\"1\",\"prefixes\":[\n" +
                without_last(joined(hosts, "{\"ip_prefix\":\"", "\",\"region\":\"x\"},\n"), 2) +
                "],\"ipv6_prefixes\":[]}\n";
       },
       true},
      {"gcp",
       [](const Hosts& hosts) {
         return "{\"syncToken\":\"1\",\"creationTime\":\"x\",\"prefixes\":[\n" +
                without_last(joined(hosts, "{\"ipv4Prefix\":\"", "\",\"scope\":\"x\"},\n"), 2) + "]}\n";
       },
       true},
      {"azure",
       [](const Hosts& hosts) {
         return "{\"values\":[{\"name\":\"x\",\"properties\":{\"addressPrefixes\":[\n" +
                without_last(joined(hosts, "\"", "\",\n"), 2) + "]}}]}\n";
       },
       true},
      {"cloudflare",
       [](const Hosts& hosts) {
         return "{\"result\":{\"ipv4_cidrs\":[\n" + without_last(joined(hosts, "\"", "\",\n"), 2) +
                "],\"ipv6_cidrs\":[]},\"success\":true}\n";
       },
       true},
      {"fastly",
       [](const Hosts& hosts) {
         return "{\"ipv6_addresses\":[],\"addresses\":[\n" + without_last(joined(hosts, "\"", "\",\n"), 2) + "]}\n";
       },
       true},
      {"github",
       [](const Hosts& hosts) {
         return "{\"hooks\":[],\"git\":[],\"web\":[\n" + without_last(joined(hosts, "\"", "\",\n"), 2) + "]}\n";
       },
       true},
      {"oracle",
       [](const Hosts& hosts) {
         return "{\"regions\":[{\"region\":\"x\",\"cidrs\":[\n" +
                without_last(joined(hosts, "{\"cidr\":\"", "\",\"tags\":[\"x\"]},\n"), 2) + "]}]}\n";
       },
       true},
      {"stix",
       [](const Hosts& hosts) {
         return "{\"type\":\"bundle\",\"id\":\"bundle--1\",\"objects\":[\n" +
                without_last(
                    joined(hosts,
                           "{\"type\":\"indicator\",\"pattern_type\":\"stix\",\"pattern\":\"[ipv4-addr:value = '",
                           "']\"},\n"),
                    2) +
                "]}\n";
       },
       true},
      {"misp-event",
       [](const Hosts& hosts) {
         return "{\"Event\":{\"info\":\"x\",\"Attribute\":[\n" +
                without_last(joined(hosts, "{\"type\":\"ip-src\",\"to_ids\":true,\"value\":\"", "\"},\n"), 2) + "]}}\n";
       },
       true},
      {"suricata",
       [](const Hosts& hosts) { return joined(hosts, "alert ip ", " any -> $HOME_NET any (msg:\"x\"; sid:1;)\n"); }},
      {"mikrotik",
       [](const Hosts& hosts) {
         return "/ip firewall address-list\n" + joined(hosts, "add list=bad address=", " comment=\"x\"\n");
       }},
      {"hosts-deny", [](const Hosts& hosts) { return joined(hosts, "ALL: ", " : deny\n"); }},
      {"access", [](const Hosts& hosts) { return joined(hosts, "", " REJECT bad\n"); }},
      {"iprep", [](const Hosts& hosts) { return joined(hosts, "", ",1,127\n"); }, false, true},
      {"rbldnsd", [](const Hosts& hosts) { return ":127.0.0.2:x\n" + joined(hosts, "", " :127.0.0.3:y\n"); }},
  };
  return kSamples;
}

Hosts hosts(size_t n, unsigned block) {
  Hosts all;
  for (size_t i = 0; i < n; i++) all.push_back(fmt::format("{}.1.{}.{}", block, i / 100, 100 + i % 100));
  return all;
}

class Torture {
 public:
  Torture(std::string folder, const confine::Helpers& parsers) : folder_(std::move(folder)), parsers_(parsers) {}

  void run() {
    for (const feeds::Format* format : feeds::formats()) {
      const auto sample = std::find_if(samples().begin(), samples().end(),
                                       [&](const Sample& one) { return one.format == std::string(format->name); });
      if (sample == samples().end()) {
        failures_.push_back(fmt::format("{}: no feed of it is known here", format->name));
        continue;
      }
      torture(*sample, format->name);
      if (sample->is_named) continue;
      torture(*sample, "auto");
      by_auto_++;
    }
  }

  std::string json() const {
    std::string all;
    for (const std::string& failure : failures_) all += fmt::format("{}\"{}\"", all.empty() ? "" : ", ", failure);
    return fmt::format("{{\"formats\": {}, \"by_auto\": {}, \"cases\": {}, \"failures\": [{}]}}",
                       feeds::formats().size(), by_auto_, cases_, all);
  }

 private:
  struct Outcome {
    std::optional<Policy> policy;
    Diagnostics diagnostics;
  };

  Outcome read(const std::string& text, const char* format, const Book* before) {
    std::ofstream(folder_ + "/feed", std::ios::binary) << text;
    std::ofstream(folder_ + "/weir.yaml")
        << "version: 1\nlists:\n- {name: a, action: drop, file: feed, format: " << format << "}\n";
    FeedHistory history(before);
    history.is_ours = false;
    history.parsers = &parsers_;
    Outcome outcome;
    outcome.policy = read_policy(folder_ + "/weir.yaml", outcome.diagnostics, unix_now(), history);
    cases_++;
    return outcome;
  }

  void torture(const Sample& sample, const char* named) {
    constexpr size_t kHosts = 400;
    const Hosts good_hosts = hosts(kHosts, 20);
    const std::string good = sample.text(good_hosts);
    const std::string what = fmt::format("{} as {}", sample.format, named);
    const Outcome first = read(good, named, nullptr);
    if (!first.policy || first.policy->lists[0].entries() != good_hosts.size() ||
        first.policy->lists[0].feed.format != sample.format) {
      return failures_.push_back(what + ": what is right is not taken");
    }
    const Book& book = first.policy->lists;
    const auto kept = [&](const Outcome& outcome) {
      return outcome.policy && outcome.policy->lists[0].refusal &&
             outcome.policy->lists[0].content->digest == book[0].content->digest;
    };
    const auto must_refuse = [&](const std::string& text, const std::string& how) {
      if (!kept(read(text, named, &book))) failures_.push_back(what + ": " + how + " is not refused");
    };
    for (size_t i = 1; i <= 100; i++) {
      const size_t at = (good.size() - 1) * i / 101;
      const Outcome cut = read(good.substr(0, at), named, &book);
      if (kept(cut)) continue;
      // Taken: only what ends with a line, holds half of the entries at least, and none that was not there.
      const bool may_be_taken = cut.policy && !sample.knows_its_end && good[at - 1] == '\n';
      if (may_be_taken && cut.policy->lists[0].entries() * 2 >= good_hosts.size() && has_no_others(book, *cut.policy))
        continue;
      failures_.push_back(fmt::format("{}: cut at byte {} of {} is taken", what, at, good.size()));
    }
    std::mt19937 random(1);
    std::string noise(20'000, ' ');
    for (char& c : noise) c = static_cast<char>(random());
    must_refuse(noise, "random bytes");
    must_refuse("<!DOCTYPE html>\n<html><body>" + good + "</body></html>\n", "an HTML page");
    must_refuse("", "an empty file");
    must_refuse(sample.text(hosts(kHosts * 11, 30)), "more than ten times as long");
  }

  static bool has_no_others(const Book& before, const Policy& after) {
    std::set<Ipv4> known;
    for (const auto& entry : before[0].v4()) known.insert(entry.first);
    for (const auto& entry : after.lists[0].v4()) {
      if (entry.first != entry.last || !known.contains(entry.first)) return false;
    }
    return true;
  }

  const std::string folder_;
  const confine::Helpers& parsers_;
  std::vector<std::string> failures_;
  size_t by_auto_ = 0;  // formats that `auto` takes for themselves
  size_t cases_ = 0;
};

double processor_seconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

// Hosts as in the lists of FireHOL: 1.77 M addresses, 56 k prefixes, all in random order.
std::string many_hosts() {
  std::mt19937 random(1);
  std::string text = "# hosts and networks\n";
  for (int i = 0; i < 1'826'000; i++) {
    const auto address = static_cast<Ipv4>(random());
    text += to_string(i % 33 == 0 ? address & 0xffff'ff00 : address) + (i % 33 == 0 ? "/24\n" : "\n");
  }
  return text;
}

// MB/s; 0: not all of it was read.
double rate_of(const feeds::Format& format, const std::string& text) {
  feeds::Reading reading(&format, {});
  ListDraft list;
  list.v4.reserve(2'000'000);
  const double begin = processor_seconds();
  for (size_t at = 0; at < text.size(); at += feeds::kMostTextBytes) {
    reading.read(std::string_view(text).substr(at, feeds::kMostTextBytes), false, list);
  }
  reading.read({}, true, list);
  const double seconds = processor_seconds() - begin;
  return list.entries() < 1'800'000 ? 0 : static_cast<double>(text.size()) / 1e6 / seconds;
}

// In turns, so that what the machine does meets both.
std::string speed() {
  constexpr size_t kRuns = 9;
  const std::string text = many_hosts();
  std::vector<double> rates, ratios;
  for (size_t run = 0; run < kRuns; run++) {
    const bool before_first = run % 2 == 0;
    double before = before_first ? rate_of(bench::plain_before(), text) : 0;
    const double now = rate_of(feeds::plain_format(), text);
    if (!before_first) before = rate_of(bench::plain_before(), text);
    if (before == 0 || now == 0) return "{}";
    rates.push_back(now);
    ratios.push_back(now / before);
  }
  std::sort(rates.begin(), rates.end());
  std::sort(ratios.begin(), ratios.end());
  return fmt::format(
      "{{\"mb\": {:.1f}, \"mb_s\": {:.1f}, \"least\": {:.1f}, \"most\": {:.1f}, \"ratio\": {:.3f}, "
      "\"ratio_least\": {:.3f}, \"ratio_most\": {:.3f}}}",
      static_cast<double>(text.size()) / 1e6, rates[kRuns / 2], rates.front(), rates.back(), ratios[kRuns / 2],
      ratios.front(), ratios.back());
}

}  // namespace
}  // namespace weir::control

int main(int argc, char** argv) {
  using namespace weir::control;
  const std::string what = argc > 1 ? argv[1] : "";
  if (what == "speed" && argc == 2) {
    fmt::print("{}\n", speed());
    return 0;
  }
  if (what == "tables" && argc == 2) {
    fmt::print("{{\"formats\": {}, \"structures\": {}}}\n", feeds::formats().size(), feeds::structures().size());
    return 0;
  }
  if (what != "torture" || argc != 3) {
    fmt::print(stderr, "usage: feed_figures torture FOLDER | speed | tables\n");
    return 2;
  }
  const auto parsers = start_parsers();
  if (!parsers) {
    fmt::print(stderr, "feed_figures: {}\n", parsers.error());
    return 1;
  }
  Torture torture(argv[2], **parsers);
  torture.run();
  fmt::print("{}\n", torture.json());
  return 0;
}
