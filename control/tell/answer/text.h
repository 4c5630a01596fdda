#pragma once

#include <cstdint>
#include <string>

// Numbers and times as people read them.
namespace weir::control {

std::string count(uint64_t n);                     // 1,234,567
std::string bytes(uint64_t n);                     // 512 B, 12.3 MiB
std::string milliseconds(double ms);               // 0.42 ms, 812 ms, 3.1 s
std::string percent(double fraction);              // 0.42 %
std::string duration(uint64_t seconds);            // 12 s, 3 min, 2 h, 5 days
std::string age(int64_t unix_s);                   // 12 s ago, 3 min ago, 2 h ago, 5 days ago; never
std::string plural(uint64_t n, const char* noun);  // 1 list, 12 lists
std::string plural(uint64_t n, const char* singular, const char* several);  // 1 entry, 3,401 entries

// Three digits and a unit of thousands: 98, 12.3 k, 1.23 M, 9.81 G.
std::string scaled(double per_second);

}  // namespace weir::control
