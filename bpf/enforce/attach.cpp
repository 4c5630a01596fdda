#include "bpf/enforce/attach.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <linux/if_link.h>
#include <net/if.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>

#include "bpf/enforce/program.h"
#include "common/files.h"

namespace weir::xdp {

namespace {

struct LinkInfo {
  uint32_t program_id = 0;
  uint32_t interface = 0;  // 0: the interface is gone
};

std::optional<LinkInfo> info_of(int link) {
  bpf_link_info info = {};
  uint32_t size = sizeof info;
  if (bpf_obj_get_info_by_fd(link, &info, &size) != 0 || info.type != BPF_LINK_TYPE_XDP) return std::nullopt;
  return LinkInfo{info.prog_id, info.xdp.ifindex};
}

uint32_t program_id(int program) {
  bpf_prog_info info = {};
  uint32_t size = sizeof info;
  return bpf_obj_get_info_by_fd(program, &info, &size) == 0 ? info.id : 0;
}

// What is attached to the interface, by the driver or behind it.
struct Running {
  uint32_t id = 0;  // 0: nothing
  bool native = false;
};

Running running_on(uint32_t interface) {
  LIBBPF_OPTS(bpf_xdp_query_opts, query);
  if (bpf_xdp_query(static_cast<int>(interface), 0, &query) != 0) return {};
  if (query.drv_prog_id != 0) return {query.drv_prog_id, true};
  if (query.skb_prog_id != 0) return {query.skb_prog_id, false};
  return {query.prog_id, query.attach_mode == XDP_ATTACHED_DRV};
}

std::string name_of(uint32_t program) {
  const Fd fd(bpf_prog_get_fd_by_id(program));
  bpf_prog_info info = {};
  uint32_t size = sizeof info;
  if (!fd || bpf_obj_get_info_by_fd(fd.get(), &info, &size) != 0) return "unknown";
  return std::string(info.name, strnlen(info.name, sizeof info.name));
}

}  // namespace

Attachment::Attachment(std::string interface, Attach attach, std::string bpf_dir, int program_fd)
    : attach_(attach), pin_(link_pin(bpf_dir, interface)), program_fd_(program_fd) {
  state_.name = std::move(interface);
}

void Attachment::fail(std::string error) {
  state_.attached = false;
  state_.error = std::move(error);
}

void Attachment::tend() {
  if (!wanted_) return;
  state_.index = if_nametoindex(state_.name.c_str());
  if (state_.index == 0) {
    link_.reset();  // the kernel has let go of it with the interface
    unlink(pin_.c_str());
    return fail("there is no such interface now");
  }
  if (!link_) link_.reset(bpf_obj_get(pin_.c_str()));
  if (link_) {
    const std::optional<LinkInfo> info = info_of(link_.get());
    // Of an interface that had this name before; or in a mode that is not wanted any more, which has to make room.
    if (!info || info->interface != state_.index || !is_in_wanted_mode()) {
      (void)bpf_link_detach(link_.get());
      link_.reset();
      unlink(pin_.c_str());
    }
  }
  const Result<void> done = link_ ? adopt() : attach_now();
  if (!done) return fail(done.error());
  state_.attached = true;
  state_.native = running_on(state_.index).native;
  state_.error.clear();
}

bool Attachment::is_in_wanted_mode() const {
  return attach_ == Attach::any || running_on(state_.index).native == (attach_ == Attach::native);
}

// The link is there. It may run a program of before, and somebody may have taken its pin away.
Result<void> Attachment::adopt() {
  if (access(pin_.c_str(), F_OK) != 0 && bpf_obj_pin(link_.get(), pin_.c_str()) != 0) {
    return errno_error("cannot pin the link at " + pin_);
  }
  const std::optional<LinkInfo> info = info_of(link_.get());
  if (info && info->program_id == program_id(program_fd_)) return {};
  if (bpf_link_update(link_.get(), program_fd_, nullptr) != 0) return errno_error("cannot replace the former program");
  return {};
}

Result<void> Attachment::link(uint32_t flags) {
  LIBBPF_OPTS(bpf_link_create_opts, options, .flags = flags);
  Fd made(bpf_link_create(program_fd_, static_cast<int>(state_.index), BPF_XDP, &options));
  if (!made) return errno_error("");
  if (bpf_obj_pin(made.get(), pin_.c_str()) != 0) return errno_error("cannot pin the link at " + pin_);
  link_ = std::move(made);
  return {};
}

Result<void> Attachment::attach_now() {
  const Running other = running_on(state_.index);
  if (other.id != 0) {
    return Error{"runs the XDP program `" + name_of(other.id) + "` (id " + std::to_string(other.id) +
                 ") already: take that away (ip link set dev " + state_.name +
                 (other.native ? " xdpdrv" : " xdpgeneric") + " off, or its own tool)"};
  }
  if (attach_ != Attach::generic) {
    if (link(XDP_FLAGS_DRV_MODE)) return {};
    const int error = errno;
    if (attach_ == Attach::native) {
      return Error{"cannot attach in the driver: " + std::string(strerror(error)) +
                   "; `attach: generic` (slower) or `auto` may do"};
    }
  }
  if (link(XDP_FLAGS_SKB_MODE)) return {};
  return Error{"cannot attach: " + std::string(strerror(errno))};
}

Result<void> Attachment::detach() {
  wanted_ = false;
  if (!link_) link_.reset(bpf_obj_get(pin_.c_str()));
  if (link_ && bpf_link_detach(link_.get()) != 0) return errno_error("cannot detach from " + state_.name);
  link_.reset();
  if (unlink(pin_.c_str()) != 0 && errno != ENOENT) return errno_error("cannot take " + pin_ + " away");
  fail("detached on demand");
  return {};
}

}  // namespace weir::xdp
