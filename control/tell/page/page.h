#pragma once

#include <string>
#include <string_view>

#include "control/tell/page/facts.h"

// The page for people that controld serves at /. docs/operate/page.md says what its parts mean.
namespace weir::control::page {

constexpr const char* kPagePath = "/";
constexpr const char* kStylePath = "/page.css";
constexpr const char* kScriptPath = "/page.js";
constexpr const char* kIconPath = "/icon.svg";
constexpr const char* kKeyArgument = "key";  // of kPagePath: what is to be explained

// Plain HTML without script or style of its own; all of it is there without the script, which only keeps it up to date.
std::string page_html(const Facts& facts);

std::string_view style();
std::string_view script();
std::string_view icon();

}  // namespace weir::control::page
