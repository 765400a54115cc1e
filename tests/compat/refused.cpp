// Makes every call of the table on the device, and prints its result and log lines, one row per
// line, for refused.py. Exits with status 1 if a result is not the documented one, or no line was
// logged.
#include "refused.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

namespace refused {

ibv_xrcd* open_shared_domain(const endpoint::Device& device) {
  ibv_xrcd_init_attr wanted{};
  wanted.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
  wanted.fd = open(kSharedFile, O_RDONLY | O_CLOEXEC);
  wanted.oflags = O_CREAT;
  ibv_xrcd* const domain = ibv_open_xrcd(device.context, &wanted);
  close(wanted.fd);
  return domain;
}

namespace {

/// The other process: creates an object of each kind that can be imported or shared, and waits.
[[noreturn]] void be_the_other(int tell) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const endpoint::Device own(1);
  static char memory[64];
  ibv_mr* const mr = ibv_reg_mr(own.pd, memory, sizeof memory, 0);
  ibv_alloc_dm_attr wanted{};
  wanted.length = 64;
  ibv_dm* const dm = ibv_alloc_dm(own.context, &wanted);
  ibv_qp_init_attr_ex target{};
  target.qp_type = IBV_QPT_XRC_RECV;
  target.comp_mask = IBV_QP_INIT_ATTR_XRCD;
  target.xrcd = open_shared_domain(own);
  endpoint::check(mr != nullptr && dm != nullptr && target.xrcd != nullptr, "the other process");
  const ibv_qp* const qp = ibv_create_qp_ex(own.context, &target);
  endpoint::check(qp != nullptr, "the other process's target");
  const OtherObjects told{own.context->cmd_fd, own.pd->handle, mr->handle, dm->handle, qp->qp_num};
  endpoint::check(write(tell, &told, sizeof told) == sizeof told, "the other process");
  for (;;) pause();
}

/// Ends the other process with this one.
struct Other {
  pid_t process = -1;
  OtherObjects objects;
  Other() {
    int ends[2];
    endpoint::check(pipe(ends) == 0, "pipe");
    process = fork();
    if (process == 0) be_the_other(ends[1]);
    close(ends[1]);
    const bool told = read(ends[0], &objects, sizeof objects) == sizeof objects;
    endpoint::check(told, "the other process");
    close(ends[0]);
    const std::string files = "/proc/" + std::to_string(process) + "/fd/";
    objects.cmd_fd = open((files + std::to_string(objects.cmd_fd)).c_str(), O_RDWR | O_CLOEXEC);
  }
  ~Other() { kill(process, SIGKILL); }
  Other(const Other&) = delete;
  Other& operator=(const Other&) = delete;
};

/// Captures standard error while it exists.
class Captured {
 public:
  Captured() : shown_(dup(STDERR_FILENO)), file_(memfd_create("log", MFD_CLOEXEC)) {
    dup2(file_, STDERR_FILENO);
  }
  ~Captured() {
    dup2(shown_, STDERR_FILENO);
    close(shown_);
    close(file_);
  }
  Captured(const Captured&) = delete;
  Captured& operator=(const Captured&) = delete;
  std::string text() const {
    std::string all(static_cast<std::size_t>(lseek(file_, 0, SEEK_END)), '\0');
    return pread(file_, all.data(), all.size(), 0) < 0 ? "" : all;
  }

 private:
  int shown_;
  int file_;
};

/// Makes the call of one row; returns true if the result is as documented and a reason was logged.
bool make(const Row& row, const Bench& bench) {
  std::string log;
  int answer = 0;
  {
    const Captured captured;
    errno = 0;
    answer = row.attempt(bench);
    log = captured.text();
  }
  const auto lines = static_cast<std::size_t>(std::count(log.begin(), log.end(), '\n'));
  std::replace(log.begin(), log.end(), '\n', ' ');
  const char* const name = strerrorname_np(answer);
  std::printf("refused\t%s\t%s\t%s\t%s\t%s\n", row.call.c_str(), row.option.c_str(),
              name != nullptr ? name : "?", row.why.c_str(), log.c_str());
  if (answer == row.answer && lines >= row.log_lines) return true;
  std::printf("FAILED: %s, %s: %s and %zu lines of log; expected %s and %zu\n", row.call.c_str(),
              row.option.c_str(), name != nullptr ? name : "?", lines, strerrorname_np(row.answer),
              row.log_lines);
  return false;
}

bool make_all(const Rows& rows, const Bench& bench) {
  bool as_documented = true;
  for (const Row& row : rows) as_documented &= make(row, bench);
  std::fflush(stdout);
  return as_documented;
}

}  // namespace
}  // namespace refused

/// `refused`, or `refused iwarp` on an iWARP node.
int main(int argc, char** argv) {
  using namespace refused;
  Rows rows;
  if (argc > 1 && std::strcmp(argv[1], "iwarp") == 0) {
    add_iwarp(rows);
    return make_all(rows, Bench({})) ? 0 : 1;
  }
  const Other
      other;  // Before this process joins the node, which a forked child would have to do again.
  const Bench bench(other.objects);
  add_objects(rows);
  add_queue_pairs(rows);
  add_receive_queues(rows);
  add_flow_rules(rows);
  add_connections(rows);
  add_sockets(rows);
  add_unserved_exports(rows);
  return make_all(rows, bench) ? 0 : 1;
}
