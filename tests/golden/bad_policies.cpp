// Every configs/bad/NAME.yaml must be refused with exactly the text of NAME.expected (format(Diagnostics)), parsed by
// this process and by others.
// Run from the project root, so that the paths in the texts are stable. --accept writes the .expected files anew: read
// the difference before committing it.
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>

#include "common/clock.h"
#include "common/files.h"
#include "control/policy/read/parsers.h"
#include "control/policy/read/policy.h"

namespace {

std::string check(const std::string& path, bool& refused, const weir::confine::Helpers* parsers) {
  weir::Diagnostics diagnostics;
  weir::control::FeedHistory history;
  history.parsers = parsers;
  refused = !weir::control::read_policy(path, diagnostics, weir::unix_now(), history) && !diagnostics.ok();
  return format(diagnostics);
}

}  // namespace

int main(int argc, char** argv) {
  const bool accept = argc == 2 && strcmp(argv[1], "--accept") == 0;
  const std::filesystem::path folder = "configs/bad";
  if (!std::filesystem::is_directory(folder)) {
    fprintf(stderr, "%s is not here: run this from the project root\n", folder.c_str());
    return 1;
  }
  std::set<std::filesystem::path> policies;
  for (const auto& file : std::filesystem::directory_iterator(folder)) {
    if (file.path().extension() == ".yaml") policies.insert(file.path());
  }
  const auto parsers = weir::control::start_parsers();
  if (!parsers) {
    fprintf(stderr, "%s\n", parsers.error().c_str());
    return 1;
  }
  int failures = 0;
  for (std::filesystem::path path : policies) {
    bool refused = false;
    const std::string got = check(path.string(), refused, nullptr);
    bool refused_apart = false;
    const std::string got_apart = check(path.string(), refused_apart, parsers->get());
    const std::string name = path.string();
    path.replace_extension(".expected");
    if (accept) std::ofstream(path) << got;
    const weir::Result<std::string> expected = weir::read_file(path.string(), size_t{1} << 20);
    if (refused && expected && *expected == got && refused_apart && got_apart == got) continue;
    failures++;
    if (got_apart != got) printf("--- got apart\n%s", got_apart.c_str());
    printf("FAILED %s%s\n--- expected\n%s--- got\n%s", name.c_str(), refused ? "" : " (it was accepted)",
           expected ? expected->c_str() : expected.error().c_str(), got.c_str());
  }
  printf("%zu policies, %d failures\n", policies.size(), failures);
  return failures != 0 || policies.empty();
}
