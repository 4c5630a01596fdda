#include "bpf/enforce/attach.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <linux/bpf.h>
#include <linux/if_link.h>
#include <net/if.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
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

// Error: the kernel does not tell. That it leads to no interface is an answer.
Result<LinkInfo> info_of(const Fd& link) {
  bpf_link_info info = {};
  uint32_t size = sizeof info;
  if (bpf_obj_get_info_by_fd(link.get(), &info, &size) != 0) return errno_error("cannot ask where a link leads");
  if (info.type != BPF_LINK_TYPE_XDP) return LinkInfo{};
  return LinkInfo{info.prog_id, info.xdp.ifindex};
}

Result<uint32_t> program_id(int program) {
  bpf_prog_info info = {};
  uint32_t size = sizeof info;
  if (bpf_obj_get_info_by_fd(program, &info, &size) != 0) return errno_error("cannot ask for the program's number");
  return info.id;
}

// 0: there is none of that name.
Result<uint32_t> index_of(const std::string& interface) {
  const uint32_t index = if_nametoindex(interface.c_str());
  if (index == 0 && errno != ENODEV && errno != ENXIO) return errno_error("cannot look for " + interface);
  return index;
}

std::string name_of(uint32_t program) {
  const Fd fd(bpf_prog_get_fd_by_id(program));
  bpf_prog_info info = {};
  uint32_t size = sizeof info;
  if (!fd || bpf_obj_get_info_by_fd(fd.get(), &info, &size) != 0) return "unknown";
  return std::string(info.name, strnlen(info.name, sizeof info.name));
}

bool is_ours(const std::string& program) {
  return program == "weir" || program == "weir_combined" || program == "weir_shadowed";
}

// Empty: it has none any more, or the kernel does not tell.
std::string name_now(uint32_t interface) {
  char name[IF_NAMESIZE] = {};
  return if_indextoname(interface, name) != nullptr ? name : "";
}

Result<Running> running_on(uint32_t interface) {
  LIBBPF_OPTS(bpf_xdp_query_opts, query);
  if (bpf_xdp_query(static_cast<int>(interface), 0, &query) != 0) {
    return errno_error("cannot ask which program the interface runs");
  }
  if (query.drv_prog_id != 0) return Running{query.drv_prog_id, true};
  if (query.skb_prog_id != 0) return Running{query.skb_prog_id, false};
  return Running{query.prog_id, query.attach_mode == XDP_ATTACHED_DRV};
}

}  // namespace

InterfaceState state_of_link(const Fd& link, const std::string& name) {
  InterfaceState state;
  state.name = name;
  const Result<LinkInfo> info = link ? info_of(link) : errno_error("cannot open its pin");
  if (!info || info->interface == 0) {
    state.error = info ? "its pin leads to no interface any more" : info.error();
    return state;
  }
  state.index = info->interface;
  state.attached = true;
  const Result<Running> running = running_on(info->interface);
  state.native = running && running->native;
  state.now = name_now(info->interface);
  return state;
}

Attachment::Attachment(std::string interface, Attach attach, std::string bpf_dir, int program_fd)
    : attach_(attach), bpf_dir_(bpf_dir), pin_(link_pin(bpf_dir, interface)), program_fd_(program_fd) {
  state_.name = std::move(interface);
}

void Attachment::fail(std::string error) {
  state_.attached = false;
  state_.error = std::move(error);
}

// Where the kernel does not tell, for want of memory or descriptors, nothing is changed: what is attached stays
// attached, and is looked at again.
void Attachment::tend() {
  if (is_detached(bpf_dir_, state_.name)) return let_go();
  const Result<void> known = look();
  if (!known && !state_.attached) fail(known.error());
}

Result<void> Attachment::look() {
  const Result<uint32_t> named = index_of(state_.name);
  if (!named) return Error{named.error()};
  if (!link_) {
    link_.reset(bpf_obj_get(pin_.c_str()));
    if (!link_ && errno != ENOENT) return errno_error("cannot open " + pin_);
  }
  const Result<LinkInfo> info = link_ ? info_of(link_) : LinkInfo{};
  if (!info) return Error{info.error()};
  // The one that it leads to was renamed, and no other has the name: it stays enforced. When another has, that is the
  // one that is meant, and what was renamed goes on by a pin of its own.
  bool leads_to_some = info->interface != 0;
  const bool is_renamed = leads_to_some && info->interface != *named;
  const uint32_t index = is_renamed && *named == 0 ? info->interface : *named;
  const Result<Running> running = index != 0 ? running_on(index) : Running{};
  if (!running) return Error{running.error()};
  if (is_renamed && *named != 0) {
    const std::string name = name_now(info->interface);
    if (name.empty()) return Error{"cannot tell what " + state_.name + " is called now"};
    const std::string pin = link_pin(bpf_dir_, name);
    if (access(pin.c_str(), F_OK) != 0) (void)rename(pin_.c_str(), pin.c_str());
    unlink(pin_.c_str());
    former_.push_back(std::move(link_));
    leads_to_some = false;
  }
  state_.index = index;
  if (index == 0) {
    link_.reset();  // the kernel has let go of it with the interface
    unlink(pin_.c_str());
    fail("there is no such interface now");
    return {};
  }
  // One that went, and was made again; one that somebody detached; or in a mode that is not wanted any more, which has
  // to make room.
  Running other = *running;
  if (link_ && (!leads_to_some || !is_in_wanted_mode(other))) {
    (void)bpf_link_detach(link_.get());
    link_.reset();
    unlink(pin_.c_str());
    if (const Result<Running> left = running_on(index)) other = *left;
  }
  const bool is_new = !link_;
  const Result<void> done = link_ ? adopt() : attach_now(other);
  if (!done) {
    fail(done.error());
    return {};
  }
  if (is_detached(bpf_dir_, state_.name)) {  // meanwhile
    let_go();
    return {};
  }
  state_.attached = true;
  if (const Result<Running> now = running_on(index)) state_.native = now->native;
  state_.now = name_now(index);
  state_.times += is_new ? 1 : 0;
  state_.error.clear();
  return {};
}

void Attachment::let_go() {
  if (!link_) link_.reset(bpf_obj_get(pin_.c_str()));
  if (link_) (void)bpf_link_detach(link_.get());
  link_.reset();
  unlink(pin_.c_str());
  state_.index = if_nametoindex(state_.name.c_str());
  fail("detached on demand, until the next reload or start of controld");
}

bool Attachment::is_disturbed() const {
  if (!state_.attached) return false;
  if (link_) {
    const Result<LinkInfo> info = info_of(link_);
    return !info || info->interface != state_.index;
  }
  const Result<Running> running = running_on(state_.index);
  const Result<uint32_t> ours = program_id(program_fd_);
  return !running || !ours || running->id != *ours;
}

bool Attachment::is_in_wanted_mode(const Running& running) const {
  return attach_ == Attach::any || running.native == (attach_ == Attach::native);
}

// The link is there. It may run a program of before, and somebody may have taken its pin away.
Result<void> Attachment::adopt() {
  if (access(pin_.c_str(), F_OK) != 0 && bpf_obj_pin(link_.get(), pin_.c_str()) != 0) {
    return errno_error("cannot pin the link at " + pin_);
  }
  const Result<LinkInfo> info = info_of(link_);
  const Result<uint32_t> ours = program_id(program_fd_);
  if (info && ours && info->program_id == *ours) return {};
  if (bpf_link_update(link_.get(), program_fd_, nullptr) != 0) return errno_error("cannot replace the former program");
  return {};
}

Result<void> Attachment::use(int program_fd) {
  program_fd_ = program_fd;
  Result<void> done;
  const auto replace = [&](const Fd& link) {
    // ENOLINK: the interface is gone.
    if (!link || bpf_link_update(link.get(), program_fd, nullptr) == 0 || errno == ENOLINK || !done) return;
    done = errno_error("cannot replace the program on " + state_.name);
  };
  replace(link_);
  std::for_each(former_.begin(), former_.end(), replace);
  return done;
}

// False: the kernel does not attach it so, and errno says why.
Result<bool> Attachment::link(uint32_t flags) {
  LIBBPF_OPTS(bpf_link_create_opts, options, .flags = flags);
  Fd made(bpf_link_create(program_fd_, static_cast<int>(state_.index), BPF_XDP, &options));
  if (!made) return false;
  if (bpf_obj_pin(made.get(), pin_.c_str()) != 0) return errno_error("cannot pin the link at " + pin_);
  link_ = std::move(made);
  return true;
}

Result<void> Attachment::attach_now(const Running& other) {
  const Result<uint32_t> ours = program_id(program_fd_);
  if (!ours) return Error{ours.error()};
  if (other.id != 0 && other.id == *ours) return {};  // by the pin of a name that it had before
  if (const std::string name = name_of(other.id); other.id != 0 && is_ours(name)) {
    return Error{"another controld enforces there already (program id " + std::to_string(other.id) +
                 "): leave it to that one, or take it off there first (`controlctl --socket ITS_SOCKET detach " +
                 state_.name + "`; when it is not running, `detach --bpf-dir` with the folder of its pins)"};
  }
  if (other.id != 0) {
    return Error{"runs the XDP program `" + name_of(other.id) + "` (id " + std::to_string(other.id) +
                 ") already: take that away (ip link set dev " + state_.name +
                 (other.native ? " xdpdrv" : " xdpgeneric") + " off, or its own tool)"};
  }
  if (attach_ != Attach::generic) {
    const Result<bool> native = link(XDP_FLAGS_DRV_MODE);
    if (!native) return Error{native.error()};
    if (*native) return {};
    const int error = errno;
    if (attach_ == Attach::native) {
      return Error{"cannot attach in the driver: " + std::string(strerror(error)) +
                   "; `attach: generic` (slower) or `auto` may do"};
    }
  }
  const Result<bool> generic = link(XDP_FLAGS_SKB_MODE);
  if (!generic) return Error{generic.error()};
  if (*generic) return {};
  return Error{"cannot attach: " + std::string(strerror(errno))};
}

Result<bool> drops_frame(const std::string& interface, std::span<const std::byte> frame) {
  const Result<uint32_t> index = index_of(interface);
  if (!index) return Error{index.error()};
  const Result<Running> running = *index != 0 ? running_on(*index) : Running{};
  if (!running) return Error{running.error()};
  if (running->id == 0 || !is_ours(name_of(running->id))) return Error{interface + " has no XDP program of weir"};
  const Fd program(bpf_prog_get_fd_by_id(running->id));
  if (!program) return errno_error("cannot open the XDP program of " + interface);
  LIBBPF_OPTS(bpf_test_run_opts, run, .data_in = frame.data(), .data_size_in = static_cast<uint32_t>(frame.size()),
              .repeat = 1);
  if (bpf_prog_test_run_opts(program.get(), &run) != 0) return errno_error("the kernel cannot run a frame");
  return run.retval == XDP_DROP;
}

}  // namespace weir::xdp
