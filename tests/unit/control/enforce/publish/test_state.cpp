// What controld keeps on disk: generations never used twice, a last good that is whole or refused, one controld at a
// time.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>

#include "common/files.h"
#include "common/peer_number.h"
#include "control/compile/seal.h"
#include "control/enforce/publish/generation.h"
#include "control/enforce/publish/in_force.h"
#include "control/enforce/publish/store.h"
#include "tests/unit/control/support/support.h"

using namespace weir;
using namespace weir::control;

TEST_CASE("numbers rise by one and survive") {
  const Folder folder;
  wire::Generation first;
  {
    auto file = GenerationFile::open(folder / "");
    REQUIRE(file);
    CHECK(file->notice().empty());
    CHECK(file->last().number == 0);
    CHECK(file->last().epoch != 0);
    first = file->next();
    CHECK(first.number == 1);
    REQUIRE(file->commit());
    CHECK(file->last() == first);
    REQUIRE(file->commit());
  }
  auto again = GenerationFile::open(folder / "");
  REQUIRE(again);
  CHECK(again->last() == wire::Generation{first.epoch, 2});
  CHECK(again->next() == wire::Generation{first.epoch, 3});
}

TEST_CASE("a number that cannot be written is given out, told, and written later") {
  const Folder folder;
  auto file = GenerationFile::open(folder / "");
  REQUIRE(file);
  REQUIRE(file->commit());
  const wire::Generation before = file->last();
  std::filesystem::remove(folder / "epoch");
  std::filesystem::create_directories(folder / "epoch/in the way");
  const Result<void> committed = file->commit();
  REQUIRE_FALSE(committed);
  CHECK(committed.error().find("epoch") != std::string::npos);
  CHECK(file->last() == wire::Generation{before.epoch, 2});
  CHECK_FALSE(std::filesystem::exists(folder / "epoch.new"));  // what could not be used is not left
  std::filesystem::remove_all(folder / "epoch");
  REQUIRE(file->save());
  CHECK(GenerationFile::open(folder / "")->last() == wire::Generation{before.epoch, 2});

  file->pass({before.epoch ^ 1, 99});
  file->pass({before.epoch, 1});
  CHECK(file->next().number == 3);
  file->pass({before.epoch, 7});  // enforced somewhere, and not remembered here
  CHECK(file->next() == wire::Generation{before.epoch, 8});
}

TEST_CASE("a number that cannot have been given out is not counted on from") {
  const Folder folder;
  auto file = GenerationFile::open(folder / "");
  REQUIRE(file);
  REQUIRE(file->commit());
  const uint64_t epoch = file->last().epoch;
  file->pass({epoch, UINT64_MAX});
  CHECK(file->next() == wire::Generation{epoch, 2});
  file->pass({epoch, 2 + kMostAhead});
  CHECK(file->next() == wire::Generation{epoch, 2});
  file->pass({epoch, 1 + kMostAhead});
  CHECK(file->next() == wire::Generation{epoch, 2 + kMostAhead});

  // On disk, as an older version left it.
  std::string text = fmt::format("weir generation 1\nepoch {:016x}\nnumber {}\n", epoch, UINT64_MAX);
  text += fmt::format("check {:016x}\n", XXH3_64bits(text.data(), text.size()));
  folder.write("epoch", text);
  auto again = GenerationFile::open(folder / "");
  REQUIRE(again);
  CHECK(again->last().epoch != epoch);
  CHECK(again->next().number == 1);
}

TEST_CASE("every damage of the epoch file begins a new epoch, loudly") {
  const Folder folder;
  uint64_t epoch = 0;
  {
    auto file = GenerationFile::open(folder / "");
    REQUIRE(file);
    for (int i = 0; i < 12; i++) REQUIRE(file->commit());
    epoch = file->last().epoch;
  }
  const std::string good = folder.read("epoch");
  const auto refused = [&](const std::string& text) {
    folder.write("epoch", text);
    auto file = GenerationFile::open(folder / "");
    REQUIRE(file);
    CHECK(file->last().epoch != epoch);
    CHECK(file->last().number == 0);
    CHECK(file->notice().find("damaged") != std::string::npos);
    CHECK(folder.read("epoch.damaged") == text);
  };
  for (size_t i = 0; i < good.size(); i++) {
    INFO("byte " << i);
    std::string text = good;
    text[i] = static_cast<char>(text[i] ^ 1);
    refused(text);
    refused(good.substr(0, i));
  }
  folder.write("epoch", good);
  CHECK(GenerationFile::open(folder / "")->last() == wire::Generation{epoch, 12});
}

TEST_CASE("an epoch file that is behind the last good begins a new epoch") {
  const Folder folder;
  auto file = GenerationFile::open(folder / "");
  REQUIRE(file);
  REQUIRE(file->commit());
  const wire::Generation last = file->last();
  REQUIRE(file->not_behind(last));
  REQUIRE(file->not_behind({last.epoch ^ 1, 99}));
  CHECK(file->last() == last);
  REQUIRE(file->not_behind({last.epoch, 2}));
  CHECK(file->last().epoch != last.epoch);
  CHECK_FALSE(file->notice().empty());
}

TEST_CASE("a new epoch begins also where it cannot be written") {
  const Folder folder;
  auto file = GenerationFile::open(folder / "");
  REQUIRE(file);
  REQUIRE(file->commit());
  const wire::Generation last = file->last();
  std::filesystem::remove(folder / "epoch");
  std::filesystem::create_directories(folder / "epoch/in the way");
  REQUIRE(file->not_behind({last.epoch, 2}));
  CHECK(file->last().epoch != last.epoch);
  CHECK(file->notice().find("not remembered until it can be written") != std::string::npos);
  CHECK(file->notice().find("was published already") != std::string::npos);
}

TEST_CASE("an order that the disk did not take leaves nothing behind when it is taken back") {
  const Folder folder;
  folder.write("bypass.on-1", "");
  folder.write("bypass.on-23", "");
  REQUIRE(Store::set_bypass(folder / ".", false));
  CHECK_FALSE(std::filesystem::exists(folder / "bypass.on-1"));
  CHECK_FALSE(std::filesystem::exists(folder / "bypass.on-23"));
}

TEST_CASE("controld and controlctl remember the same order at the same time") {
  const Folder folder;
  REQUIRE(Store::open(folder / ""));
  const auto order_meanwhile = [&](bool on) {
    return [&folder, on] { return bool(Store::set_bypass(folder / "", on)); };
  };
  REQUIRE(Store::set_bypass(folder / "", true, order_meanwhile(true)));
  CHECK(std::filesystem::exists(folder / "bypass"));
  REQUIRE(Store::set_bypass(folder / "", false, order_meanwhile(false)));
  CHECK_FALSE(std::filesystem::exists(folder / "bypass"));
}

TEST_CASE("an order of on that waits for the disk is overtaken by one of off") {
  const Folder folder;
  REQUIRE(Store::open(folder / ""));
  REQUIRE(Store::set_bypass(folder / "", true, [&] { return bool(Store::set_bypass(folder / "", false)); }));
  CHECK_FALSE(std::filesystem::exists(folder / "bypass"));
}

TEST_CASE("a folder without room for a lock is locked") {
  const Folder folder;
  std::filesystem::create_directory_symlink("no/such/folder", folder / "lock");  // none can be made
  auto store = Store::open(folder / "");
  REQUIRE(store);
  auto second = Store::open(folder / "");
  REQUIRE_FALSE(second);
  CHECK(second.error().find("another controld") != std::string::npos);
}

TEST_CASE("two controlds do not share a state directory") {
  const Folder folder;
  const auto in_other_process = [&] {
    const pid_t child = fork();
    if (child == 0) _exit(Store::open(folder / "state") ? 0 : 1);
    int status = 0;
    waitpid(child, &status, 0);
    return WEXITSTATUS(status) == 0;
  };
  {
    auto store = Store::open(folder / "state");
    REQUIRE(store);
    struct stat status {};
    REQUIRE(stat((folder / "state").c_str(), &status) == 0);
    CHECK((status.st_mode & 0777) == 0700);
    CHECK_FALSE(in_other_process());
    auto second = Store::open(folder / "state");
    REQUIRE_FALSE(second);
    CHECK(second.error().find("another controld") != std::string::npos);
  }
  CHECK(in_other_process());
}

TEST_CASE("the last good comes back as it was, sealed") {
  const Folder folder;
  const Sample saved = sample({7, 3});
  {
    auto store = Store::open(folder / "");
    REQUIRE(store);
    auto nothing = store->load();
    REQUIRE(nothing);
    CHECK_FALSE(*nothing);
    REQUIRE(store->save(*saved.publication));
    REQUIRE(store->save_book({7, 3}, std::as_bytes(std::span(saved.book))));
  }
  auto store = Store::open(folder / "");
  REQUIRE(store);
  CHECK(*store->stored_generation() == wire::Generation{7, 3});
  auto loaded = store->load();
  REQUIRE(loaded);
  REQUIRE(*loaded);
  const Publication& publication = **loaded;
  CHECK(publication.generation == wire::Generation{7, 3});
  CHECK(publication.digest == saved.publication->digest);
  CHECK(publication.size_bytes == saved.publication->size_bytes);
  auto mapping = map_read_only(publication.snapshot.get(), publication.size_bytes);
  REQUIRE(mapping);
  CHECK(weir::digest_of(mapping->bytes()) == saved.publication->digest);
  const int all = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL;
  CHECK((fcntl(publication.snapshot.get(), F_GET_SEALS) & all) == all);
  struct stat status {};
  REQUIRE(stat((folder / "snapshot.weir").c_str(), &status) == 0);
  CHECK((status.st_mode & 0777) == 0600);

  auto book = store->book({7, 3});
  REQUIRE(book);
  CHECK(std::string(reinterpret_cast<const char*>(book->bytes().data()), book->size_bytes) == saved.book);
  CHECK_FALSE(store->book({7, 4}));
}

TEST_CASE("a last good that is damaged or cut off is refused") {
  const Folder folder;
  auto store = Store::open(folder / "");
  REQUIRE(store);
  const Sample saved = sample({7, 3});
  REQUIRE(store->save(*saved.publication));
  REQUIRE(store->save_book(saved.publication->generation, std::as_bytes(std::span(saved.book))));
  const std::string good = folder.read("snapshot.weir");
  std::vector<size_t> places = {0, 1, 63, 64, 4095, 4096, good.size() / 2};
  for (size_t back = 1; back <= 65; back++) places.push_back(good.size() - back);  // the whole trailer
  for (const size_t at : places) {
    INFO("byte " << at << " of " << good.size());
    std::string text = good;
    text[at] = static_cast<char>(text[at] ^ 0x10);
    folder.write("snapshot.weir", text);
    CHECK_FALSE(store->load());
    folder.write("snapshot.weir", good.substr(0, at));
    CHECK_FALSE(store->load());
  }
  folder.write("snapshot.weir", good + "x");
  CHECK_FALSE(store->load());
  folder.write("snapshot.weir", good);
  CHECK(store->load());
}

TEST_CASE("bypass is remembered") {
  const Folder folder;
  const auto on = [&] { return Store::open(folder / "")->bypass(); };
  CHECK_FALSE(on());
  const auto ordered = [&] { return Store::open(folder / "")->ordered_bypass(); };
  CHECK(ordered() == std::nullopt);
  REQUIRE(Store::open(folder / "")->set_bypass(true));
  CHECK(on());
  CHECK(ordered() == true);
  REQUIRE(Store::open(folder / "")->set_bypass(false));
  REQUIRE(Store::open(folder / "")->set_bypass(false));
  CHECK_FALSE(on());
  CHECK(ordered() == false);
  REQUIRE(Store::open(folder / "")->set_bypass(true));
  CHECK(ordered() == true);
  REQUIRE(Store::open(folder / "")->set_bypass(false));
  REQUIRE(Store::forget_off(folder / ""));
  REQUIRE(Store::forget_off(folder / ""));
  CHECK(ordered() == std::nullopt);
  REQUIRE(Store::open(folder / "")->set_bypass(false));  // it was off already
  CHECK(ordered() == false);
}

TEST_CASE("an order of bypass that is not wanted any more changes nothing") {
  const Folder folder;
  Result<Store> store = Store::open(folder / "");
  for (const bool before : {false, true}) {
    REQUIRE(store->set_bypass(before));
    REQUIRE(store->set_bypass(!before, [] { return false; }));
    CHECK(store->bypass() == before);
    const auto is_unfinished = [](const auto& file) {
      return file.path().filename().string().starts_with("bypass.on-");
    };
    CHECK(std::ranges::none_of(std::filesystem::directory_iterator(folder / ""), is_unfinished));
    REQUIRE(store->set_bypass(!before, [] { return true; }));
    CHECK(store->bypass() != before);
  }
}

TEST_CASE("who enforces the last good is kept, whole or not at all") {
  const Folder folder;
  auto none = read_in_force(folder / "");
  REQUIRE(none);
  CHECK_FALSE(*none);
  const InForce kept = {"/etc/weir/weir.yaml",
                        {dataplane_target("/run/a b.sock"), xdp_target({"eth0", "eth1"}, Attach::native),
                         xdp_target({}, Attach::generic)}};
  REQUIRE(write_in_force(folder / "", kept));
  CHECK(read_in_force(folder / "").value() == kept);
  const std::string good = folder.read("targets");
  for (size_t i = 0; i < good.size(); i++) {
    INFO("byte " << i);
    std::string text = good;
    text[i] = static_cast<char>(text[i] ^ 1);
    folder.write("targets", text);
    CHECK_FALSE(read_in_force(folder / ""));
    folder.write("targets", good.substr(0, i));
    CHECK_FALSE(read_in_force(folder / ""));
  }
  CHECK_FALSE(write_in_force(folder / "", {"/two\nlines", {}}));
  REQUIRE(write_in_force(folder / "", {"/c", {}}));
  CHECK(read_in_force(folder / "").value() == InForce{"/c", {}});
}

TEST_CASE("where a policy keeps its state is remembered for each policy") {
  const Folder folder;
  const std::string usual = folder / "usual";
  CHECK(remembered_state_dir(usual, "/a.yaml") == usual);
  REQUIRE(remember_state_dir(usual, "/a.yaml", usual));
  CHECK_FALSE(std::filesystem::exists(usual));  // nothing to remember
  REQUIRE(remember_state_dir(usual, "/a.yaml", "/state of/a"));
  CHECK(remembered_state_dir(usual, "/a.yaml") == "/state of/a");
  CHECK(remembered_state_dir(usual, "/b.yaml") == usual);
  REQUIRE(remember_state_dir(usual, "/a.yaml", usual));
  CHECK(remembered_state_dir(usual, "/a.yaml") == usual);
}

TEST_CASE("a policy is the same by each path that leads to it") {
  const Folder folder;
  const std::string usual = folder / "usual", real = folder / "weir.yaml", link = folder / "link.yaml";
  folder.write("weir.yaml", "");
  folder.write("other.yaml", "");
  std::filesystem::create_symlink("weir.yaml", link);
  CHECK(is_same_file(real, link));
  CHECK(is_same_file(folder / "./weir.yaml", link));
  CHECK(is_same_file("/absent.yaml", "/absent.yaml"));
  CHECK_FALSE(is_same_file(real, folder / "other.yaml"));
  CHECK_FALSE(is_same_file(real, folder / "absent.yaml"));
  REQUIRE(remember_state_dir(usual, link, "/state"));  // a start by the link
  CHECK(remembered_state_dir(usual, real) == "/state");
  CHECK(remembered_state_dir(usual, folder / "other.yaml") == usual);
  std::filesystem::create_symlink("weir.yaml", folder / "second.yaml");
  CHECK(remembered_state_dir(usual, folder / "second.yaml") == "/state");
}

TEST_CASE("a start that saved nothing leaves nothing in a new folder") {
  const Folder folder;
  const auto begin = [&](const char* name, bool saves) {
    auto store = Store::open(folder / name);
    REQUIRE(store);
    auto numbers = GenerationFile::open(folder / name);
    REQUIRE(numbers);
    folder.write(std::string(name) + "/journal.db", "");
    folder.write(std::string(name) + "/journal.db-wal", "");
    if (saves) REQUIRE(store->save(*sample(numbers->next()).publication));
  };
  begin("new", false);
  CHECK_FALSE(std::filesystem::exists(folder / "new"));
  folder.make("there");
  begin("there", false);
  CHECK(std::filesystem::is_empty(folder / "there"));
  begin("there", true);
  CHECK(std::filesystem::exists(folder / "there/epoch"));
  begin("there", false);  // what an earlier start left stays
  CHECK(std::filesystem::exists(folder / "there/epoch"));
  CHECK(std::filesystem::exists(folder / "there/journal.db"));
  {
    auto store = Store::open(folder / "ordered");
    REQUIRE(store);
    REQUIRE(store->set_bypass(true));
    REQUIRE(GenerationFile::open(folder / "ordered"));
  }
  CHECK(Store::open(folder / "ordered")->bypass());
}
