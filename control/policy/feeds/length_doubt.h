#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace weir::control::feeds {

// Whether the numbers in a column beside the addresses are prefix lengths, though nobody says so: `2a01:fb00::` beside
// 29 is hardly a host. All rows are asked, so that a score that fits an address by chance is a score.
class LengthDoubt {
 public:
  void look(uint32_t line, std::string_view address, std::string_view beside);

  // One address is a network of the number beside it, and most others could be.
  bool is_founded() const { return line_ != 0 && fits_ >= misfits_; }
  // The first one that is.
  uint32_t line() const { return line_; }
  const std::string& address() const { return address_; }
  const std::string& number() const { return number_; }

 private:
  uint64_t fits_ = 0, misfits_ = 0;
  uint32_t line_ = 0;
  std::string address_, number_;
};

}  // namespace weir::control::feeds
