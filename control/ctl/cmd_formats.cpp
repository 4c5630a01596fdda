#include <cstdio>
#include <string>
#include <vector>

#include "control/ctl/command.h"
#include "control/ctl/commands.h"
#include "control/ctl/line/out.h"
#include "control/ctl/print.h"
#include "control/ctl/text.h"
#include "control/policy/feeds/format.h"

// Needs no controld: the table of feed formats.
namespace weir::control::ctl {

namespace cmd_formats {

struct SettingRow {
  std::string name, meaning;
};
void members(Fields& f, SettingRow& setting) {
  f({"name", "", "as in `format: {csv: {NAME: VALUE}}`"}, setting.name);
  f({"meaning", "", "of its value"}, setting.meaning);
}

struct FormatRow {
  std::string name, meaning;
  std::vector<SettingRow> settings;
};
void members(Fields& f, FormatRow& format) {
  f({"name", "", "as in `format: NAME`"}, format.name);
  f({"meaning", "", "what a feed of it looks like"}, format.meaning);
  f.array({"settings", "", "that a policy may give it"}, format.settings, "setting of a format");
}

struct FormatsAnswer {
  std::vector<FormatRow> formats;
};
void members(Fields& f, FormatsAnswer& answer) {
  f.array({"formats", "", "in the order in which `auto` asks them"}, answer.formats, "feed format");
}

FormatsAnswer answer() {
  FormatsAnswer answer;
  for (const feeds::Format* format : feeds::formats()) {
    FormatRow row = {format->name, format->what, {}};
    for (const feeds::Setting& setting : format->settings) row.settings.push_back({setting.name, setting.what});
    answer.formats.push_back(std::move(row));
  }
  return answer;
}

int run(const Context& context) {
  const FormatsAnswer formats = answer();
  if (context.json) {
    print("{}", write_json(formats).line());
    return kOk;
  }
  Table table({{"format"}, {"setting"}, {"what"}});
  for (const FormatRow& format : formats.formats) {
    table.row({format.name, "", format.meaning});
    for (const SettingRow& setting : format.settings) table.row({"", setting.name, setting.meaning});
  }
  print("{}", table.text());
  return kOk;
}

Run configure(Options&) {
  return run;
}

}  // namespace cmd_formats

const Command kFormats = {"formats",
                          Group::file,
                          "the formats of feeds, with their settings; needs no controld",
                          "`format: auto` asks them in this order what a feed looks like. Feeds may be packed by gzip, "
                          "xz or zstd.",
                          cmd_formats::configure,
                          [](MemberTable& table) { table.add<cmd_formats::FormatsAnswer>("formats"); }};

}  // namespace weir::control::ctl
