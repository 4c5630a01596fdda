// The versions of a real feed as changes. Exit code 77, with the reason, without the test data.

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "tests/agreement/updates.h"
#include "tests/catch.h"

using namespace weir;
using namespace weir::agreement;

namespace {

// From the project's folder, where WEIR_DATA does not name it.
std::filesystem::path folder() {
  const char* data = getenv("WEIR_DATA");
  return std::filesystem::path(data == nullptr ? "../shared/data" : data) / "blocklists/updates/x4b_datacenter_v4";
}

std::vector<std::string> versions() {
  std::vector<std::string> files;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder(), error)) {
    if (entry.path().string().ends_with(".txt.xz")) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

TEST_CASE("versions of a feed, as changes, give what snapshots of each version give") {
  const std::vector<std::string> files = versions();
  const Result<std::unique_ptr<XdpPlane>> changing = XdpPlane::open(), anew = XdpPlane::open();
  if (!changing) fmt::print(stderr, "agreement-updates: the data plane alone: {}\n", changing.error());
  UpdateTotals totals;
  const bool with_xdp = changing && anew;
  const auto problem =
      run_updates(files, with_xdp ? changing->get() : nullptr, with_xdp ? anew->get() : nullptr, totals);
  INFO(problem.value_or(""));
  CHECK_FALSE(problem);
  CHECK(totals.disagreements == 0);
  CHECK(totals.versions == files.size());
  CHECK(totals.overlays == files.size() - 1);
  CHECK(totals.changes > 100 * totals.overlays);
  CHECK(totals.compared.hits > totals.compared.packets / 5);
  CHECK(totals.compared.hits < totals.compared.packets / 5 * 4);
}

int before_tests() {
  if (versions().size() > 1) return 0;
  fmt::print(stderr, "skipped: no {}: WEIR_DATA names the folder of test data\n", folder().string());
  return 77;
}
