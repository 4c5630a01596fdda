#include "control/policy/model/networks.h"

#include <cstdint>

namespace weir::control {

namespace {

constexpr Ipv6 high(uint64_t bits) {
  return Ipv6{bits} << 64;
}

constexpr NamedRange<Ipv4> kReserved4[] = {
    {0x00000000, 0x00ffffff, "0.0.0.0/8"},      {0x0a000000, 0x0affffff, "10.0.0.0/8"},
    {0x64400000, 0x647fffff, "100.64.0.0/10"},  {0x7f000000, 0x7fffffff, "127.0.0.0/8"},
    {0xa9fe0000, 0xa9feffff, "169.254.0.0/16"}, {0xac100000, 0xac1fffff, "172.16.0.0/12"},
    {0xc0a80000, 0xc0a8ffff, "192.168.0.0/16"}, {0xe0000000, 0xefffffff, "224.0.0.0/4"},
    {0xf0000000, 0xffffffff, "240.0.0.0/4"},
};
constexpr NamedRange<Ipv6> kReserved6[] = {
    {0, 1, "::/127"},
    {high(0xfc00'0000'0000'0000), high(0xfdff'ffff'ffff'ffff) | ~uint64_t{0}, "fc00::/7"},
    {high(0xfe80'0000'0000'0000), high(0xfebf'ffff'ffff'ffff) | ~uint64_t{0}, "fe80::/10"},
    {high(0xff00'0000'0000'0000), ~Ipv6{0}, "ff00::/8"},
};

constexpr NamedRange<Ipv4> kPopular4[] = {
    {0x01000000, 0x010000ff, "Cloudflare DNS"},  // 1.0.0.0/24
    {0x01010100, 0x010101ff, "Cloudflare DNS"},  // 1.1.1.0/24
    {0x08080400, 0x080804ff, "Google DNS"},  // 8.8.4.0/24
    {0x08080800, 0x080808ff, "Google DNS"},  // 8.8.8.0/24
    {0x09090900, 0x090909ff, "Quad9 DNS"},  // 9.9.9.0/24
    {0x0d200000, 0x0d21ffff, "Amazon CloudFront"},  // 13.32.0.0/15
    {0x11000000, 0x11ffffff, "Apple"},  // 17.0.0.0/8
    {0x17200000, 0x173fffff, "Akamai"},  // 23.32.0.0/11
    {0x17eb2000, 0x17eb2fff, "Fastly"},  // 23.235.32.0/20
    {0x1f0d4000, 0x1f0d7fff, "Meta"},  // 31.13.64.0/18
    {0x28600000, 0x2867ffff, "Microsoft Exchange Online"},  // 40.96.0.0/13
    {0x28680000, 0x2869ffff, "Microsoft Exchange Online"},  // 40.104.0.0/15
    {0x34540000, 0x3455ffff, "Amazon CloudFront"},  // 52.84.0.0/15
    {0x34600000, 0x3463ffff, "Microsoft Exchange Online"},  // 52.96.0.0/14
    {0x36c00000, 0x36c0ffff, "Amazon CloudFront"},  // 54.192.0.0/16
    {0x4a7d0000, 0x4a7dffff, "Google"},  // 74.125.0.0/16
    {0x5bc6ae00, 0x5bc6aeff, "Wikimedia"},  // 91.198.174.0/24
    {0x63540000, 0x6354ffff, "Amazon CloudFront"},  // 99.84.0.0/16
    {0x6715f400, 0x6715f7ff, "Cloudflare"},  // 103.21.244.0/22
    {0x6716c800, 0x6716cbff, "Cloudflare"},  // 103.22.200.0/22
    {0x671f0400, 0x671f07ff, "Cloudflare"},  // 103.31.4.0/22
    {0x68100000, 0x6817ffff, "Cloudflare"},  // 104.16.0.0/13
    {0x68180000, 0x681bffff, "Cloudflare"},  // 104.24.0.0/14
    {0x68400000, 0x687fffff, "Akamai"},  // 104.64.0.0/10
    {0x6ca2c000, 0x6ca2ffff, "Cloudflare"},  // 108.162.192.0/18
    {0x83004800, 0x83004bff, "Cloudflare"},  // 131.0.72.0/22
    {0x8c527000, 0x8c527fff, "GitHub"},  // 140.82.112.0/20
    {0x8d654000, 0x8d657fff, "Cloudflare"},  // 141.101.64.0/18
    {0x8efa0000, 0x8efbffff, "Google"},  // 142.250.0.0/15
    {0x924b0000, 0x924b7fff, "Fastly"},  // 146.75.0.0/17
    {0x95707000, 0x957070ff, "Quad9 DNS"},  // 149.112.112.0/24
    {0x97650000, 0x9765ffff, "Fastly"},  // 151.101.0.0/16
    {0x9df00000, 0x9df0ffff, "Meta"},  // 157.240.0.0/16
    {0xa29e0000, 0xa29fffff, "Cloudflare"},  // 162.158.0.0/15
    {0xaaf7aa02, 0xaaf7aa02, "root server b"},  // 170.247.170.2/32
    {0xac400000, 0xac47ffff, "Cloudflare"},  // 172.64.0.0/13
    {0xacd90000, 0xacd9ffff, "Google"},  // 172.217.0.0/16
    {0xadf53000, 0xadf53fff, "Cloudflare"},  // 173.245.48.0/20
    {0xb8180000, 0xb81fffff, "Akamai"},  // 184.24.0.0/13
    {0xb9c76c00, 0xb9c76fff, "GitHub"},  // 185.199.108.0/22
    {0xbc726000, 0xbc726fff, "Cloudflare"},  // 188.114.96.0/20
    {0xbe5df000, 0xbe5dffff, "Cloudflare"},  // 190.93.240.0/20
    {0xc00505f1, 0xc00505f1, "root server f"},  // 192.5.5.241/32
    {0xc01efc00, 0xc01effff, "GitHub"},  // 192.30.252.0/22
    {0xc021040c, 0xc021040c, "root server c"},  // 192.33.4.12/32
    {0xc0249411, 0xc0249411, "root server i"},  // 192.36.148.17/32
    {0xc03a801e, 0xc03a801e, "root server j"},  // 192.58.128.30/32
    {0xc0702404, 0xc0702404, "root server g"},  // 192.112.36.4/32
    {0xc0cbe60a, 0xc0cbe60a, "root server e"},  // 192.203.230.10/32
    {0xc1000e81, 0xc1000e81, "root server k"},  // 193.0.14.129/32
    {0xc5eaf000, 0xc5eaf3ff, "Cloudflare"},  // 197.234.240.0/22
    {0xc6290004, 0xc6290004, "root server a"},  // 198.41.0.4/32
    {0xc6298000, 0xc629ffff, "Cloudflare"},  // 198.41.128.0/17
    {0xc661be35, 0xc661be35, "root server h"},  // 198.97.190.53/32
    {0xc707532a, 0xc707532a, "root server l"},  // 199.7.83.42/32
    {0xc7075b0d, 0xc7075b0d, "root server d"},  // 199.7.91.13/32
    {0xc7e80000, 0xc7e8ffff, "Fastly"},  // 199.232.0.0/16
    {0xca0c1b21, 0xca0c1b21, "root server m"},  // 202.12.27.33/32
    {0xd043dc00, 0xd043dcff, "OpenDNS"},  // 208.67.220.0/24
    {0xd043de00, 0xd043deff, "OpenDNS"},  // 208.67.222.0/24
    {0xd0509800, 0xd0509bff, "Wikimedia"},  // 208.80.152.0/22
    {0xd83ac000, 0xd83adfff, "Google"},  // 216.58.192.0/19
};
constexpr NamedRange<Ipv6> kPopular6[] = {
    {high(0x2001'0500'0001'0000) | 0x53, high(0x2001'0500'0001'0000) | 0x53, "root server h"},  // 2001:500:1::53/128
    {high(0x2001'0500'0002'0000) | 0xc, high(0x2001'0500'0002'0000) | 0xc, "root server c"},  // 2001:500:2::c/128
    {high(0x2001'0500'0012'0000) | 0xd0d, high(0x2001'0500'0012'0000) | 0xd0d, "root server g"},  // 2001:500:12::d0d/128
    {high(0x2001'0500'002d'0000) | 0xd, high(0x2001'0500'002d'0000) | 0xd, "root server d"},  // 2001:500:2d::d/128
    {high(0x2001'0500'002f'0000) | 0xf, high(0x2001'0500'002f'0000) | 0xf, "root server f"},  // 2001:500:2f::f/128
    {high(0x2001'0500'009f'0000) | 0x42, high(0x2001'0500'009f'0000) | 0x42, "root server l"},  // 2001:500:9f::42/128
    {high(0x2001'0500'00a8'0000) | 0xe, high(0x2001'0500'00a8'0000) | 0xe, "root server e"},  // 2001:500:a8::e/128
    {high(0x2001'0503'0c27'0000) | 0x20030, high(0x2001'0503'0c27'0000) | 0x20030, "root server j"},  // 2001:503:c27::2:30/128
    {high(0x2001'0503'ba3e'0000) | 0x20030, high(0x2001'0503'ba3e'0000) | 0x20030, "root server a"},  // 2001:503:ba3e::2:30/128
    {high(0x2001'07fd'0000'0000) | 0x1, high(0x2001'07fd'0000'0000) | 0x1, "root server k"},  // 2001:7fd::1/128
    {high(0x2001'07fe'0000'0000) | 0x53, high(0x2001'07fe'0000'0000) | 0x53, "root server i"},  // 2001:7fe::53/128
    {high(0x2001'0dc3'0000'0000) | 0x35, high(0x2001'0dc3'0000'0000) | 0x35, "root server m"},  // 2001:dc3::35/128
    {high(0x2001'4860'4860'0000), high(0x2001'4860'4860'ffff) | ~uint64_t{0}, "Google DNS"},  // 2001:4860:4860::/48
    {high(0x2606'4700'0000'0000), high(0x2606'4700'ffff'ffff) | ~uint64_t{0}, "Cloudflare"},  // 2606:4700::/32
    {high(0x2620'0000'0861'0000), high(0x2620'0000'0861'ffff) | ~uint64_t{0}, "Wikimedia"},  // 2620:0:861::/48
    {high(0x2620'00fe'0000'0000), high(0x2620'00fe'0000'ffff) | ~uint64_t{0}, "Quad9 DNS"},  // 2620:fe::/48
    {high(0x2801'01b8'0010'0000) | 0xb, high(0x2801'01b8'0010'0000) | 0xb, "root server b"},  // 2801:1b8:10::b/128
    {high(0x2a04'4e42'0000'0000), high(0x2a04'4e42'ffff'ffff) | ~uint64_t{0}, "Fastly"},  // 2a04:4e42::/32
};

}  // namespace

template <>
std::span<const NamedRange<Ipv4>> reserved_networks<Ipv4>() {
  return kReserved4;
}
template <>
std::span<const NamedRange<Ipv6>> reserved_networks<Ipv6>() {
  return kReserved6;
}
template <>
std::span<const NamedRange<Ipv4>> popular_networks<Ipv4>() {
  return kPopular4;
}
template <>
std::span<const NamedRange<Ipv6>> popular_networks<Ipv6>() {
  return kPopular6;
}

}  // namespace weir::control
