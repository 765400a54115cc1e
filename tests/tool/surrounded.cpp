/// A program in a surrounding: it does what its first argument names before it opens the device
/// ("before"), or between opening and sending ("after"). "ok": a message was sent and received.
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include <fcntl.h>
#include <grp.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

struct Surrounding {
  const char* name;
  bool (*enter)();
};

bool limit(__rlimit_resource which, rlim_t value) {
  const rlimit wanted{value, value};
  return setrlimit(which, &wanted) == 0;
}

bool ignore(int number) { return signal(number, SIG_IGN) != SIG_ERR; }

constexpr uid_t kNobody = 65534;

const Surrounding kSurroundings[] = {
    {"nothing", [] { return true; }},
    {"undumpable", [] { return prctl(PR_SET_DUMPABLE, 0) == 0; }},
    {"no_aslr", [] { return personality(ADDR_NO_RANDOMIZE) != -1; }},
    {"another_user",
     [] { return setgroups(0, nullptr) == 0 && setgid(kNobody) == 0 && setuid(kNobody) == 0; }},
    {"user_namespace", [] { return unshare(CLONE_NEWUSER) == 0; }},
    {"network_namespace", [] { return unshare(CLONE_NEWNET) == 0; }},
    {"mount_namespace", [] { return unshare(CLONE_NEWNS) == 0; }},
    {"process_namespace",
     [] {
       if (unshare(CLONE_NEWPID) != 0) return false;
       const pid_t child = fork();  // It is process 1; this one has no more threads.
       if (child == 0) return true;
       int status = 0;
       waitpid(child, &status, 0);
       _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 99);
     }},
    {"chroot", [] { return chroot("/proc/self/fdinfo") == 0 && chdir("/") == 0; }},
    {"umask_0777",
     [] {
       umask(0777);
       return true;
     }},
    {"mlockall", [] { return mlockall(MCL_CURRENT | MCL_FUTURE) == 0; }},
    {"mlockall_64m",
     [] {
       return limit(RLIMIT_MEMLOCK, 64 << 20) && setuid(kNobody) == 0 &&
              mlockall(MCL_CURRENT | MCL_FUTURE) == 0;
     }},
    {"no_more_memory_lock", [] { return limit(RLIMIT_MEMLOCK, 0); }},
    {"few_descriptors", [] { return limit(RLIMIT_NOFILE, 20); }},
    {"no_more_descriptors", [] { return limit(RLIMIT_NOFILE, 3); }},
    {"no_more_processes", [] { return limit(RLIMIT_NPROC, 1) && setuid(kNobody) == 0; }},
    {"small_files", [] { return limit(RLIMIT_FSIZE, 4096); }},
    {"small_space", [] { return limit(RLIMIT_AS, rlim_t{1} << 30); }},
    {"small_stack_limit", [] { return limit(RLIMIT_STACK, 64 << 10); }},
    {"closefrom",
     [] {
       closefrom(3);
       return true;
     }},
    {"closed_standard",
     [] {
       const int kept = fcntl(1, F_DUPFD, 200);
       return close(0) == 0 && close(1) == 0 && close(2) == 0 && kept == 200;
     }},
    {"pipe_ignored", [] { return ignore(SIGPIPE); }},
    {"children_ignored", [] { return ignore(SIGCHLD); }},
    {"signals_blocked",
     [] {
       sigset_t all;
       sigfillset(&all);
       return pthread_sigmask(SIG_SETMASK, &all, nullptr) == 0;
     }},
    {"subreaper", [] { return prctl(PR_SET_CHILD_SUBREAPER, 1) == 0; }},
    {"collects_children",  // As supervisors do: until there are none.
     [] {
       for (int i = 0; i < 2; ++i) {
         if (fork() == 0) _exit(0);
       }
       int collected = 0;
       while (wait(nullptr) > 0) ++collected;
       return errno == ECHILD && collected == 2;
     }},
    {"vfork_child",
     [] {
       const pid_t child = vfork();
       if (child == 0) _exit(0);
       return waitpid(child, nullptr, 0) == child;
     }},
    {"no_new_privileges", [] { return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0; }},
    {"no_home", [] { return unsetenv("HOME") == 0 && unsetenv("PATH") == 0; }},
    {"no_environment", [] { return clearenv() == 0; }},
};

struct Device {
  ibv_context* context = nullptr;
  ibv_pd* pd = nullptr;
  ibv_cq* cq = nullptr;
  ibv_qp* qp = nullptr;
  ibv_mr* mr = nullptr;
  std::vector<char> buffer = std::vector<char>(64 << 10);
};

int failed(const char* what) {
  const std::string text = std::string(what) + ": " + std::strerror(errno) + "\n";
  for (const int fd : {1, 200}) {
    if (write(fd, text.data(), text.size()) > 0) break;
  }
  return 1;
}

int open(Device& device) {
  ibv_device** const list = ibv_get_device_list(nullptr);
  if (list == nullptr || list[0] == nullptr) return failed("ibv_get_device_list");
  device.context = ibv_open_device(list[0]);
  ibv_free_device_list(list);
  if (device.context == nullptr) return failed("ibv_open_device");
  device.pd = ibv_alloc_pd(device.context);
  return device.pd == nullptr ? failed("ibv_alloc_pd") : 0;
}

/// A queue pair that is connected to itself.
int connect(Device& device) {
  device.cq = ibv_create_cq(device.context, 16, nullptr, nullptr, 0);
  if (device.cq == nullptr) return failed("ibv_create_cq");
  device.mr = ibv_reg_mr(device.pd, device.buffer.data(), device.buffer.size(),
                         IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
  if (device.mr == nullptr) return failed("ibv_reg_mr");
  ibv_qp_init_attr wanted{};
  wanted.send_cq = wanted.recv_cq = device.cq;
  wanted.cap = {4, 4, 1, 1, 0};
  wanted.qp_type = IBV_QPT_RC;
  device.qp = ibv_create_qp(device.pd, &wanted);
  if (device.qp == nullptr) return failed("ibv_create_qp");
  ibv_qp_attr to{};
  to.qp_state = IBV_QPS_INIT;
  to.port_num = 1;
  errno = ibv_modify_qp(device.qp, &to,
                        IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
  if (errno != 0) return failed("INIT");
  to.qp_state = IBV_QPS_RTR;
  to.path_mtu = IBV_MTU_1024;
  to.dest_qp_num = device.qp->qp_num;
  to.max_dest_rd_atomic = 1;
  to.min_rnr_timer = 1;
  to.ah_attr.is_global = 1;
  to.ah_attr.port_num = 1;
  to.ah_attr.grh.sgid_index = 1;
  to.ah_attr.grh.hop_limit = 64;
  ibv_query_gid(device.context, 1, 1, &to.ah_attr.grh.dgid);
  errno = ibv_modify_qp(device.qp, &to,
                        IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                            IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
  if (errno != 0) return failed("RTR");
  to.qp_state = IBV_QPS_RTS;
  to.timeout = 14;
  to.retry_cnt = to.rnr_retry = 7;
  to.max_rd_atomic = 1;
  errno = ibv_modify_qp(device.qp, &to,
                        IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                            IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC);
  return errno != 0 ? failed("RTS") : 0;
}

int send(Device& device) {
  ibv_sge from{reinterpret_cast<std::uintptr_t>(device.buffer.data()), 4096, device.mr->lkey};
  ibv_sge into{from.addr + 4096, 4096, device.mr->lkey};
  ibv_recv_wr receive{};
  receive.sg_list = &into;
  receive.num_sge = 1;
  ibv_recv_wr* bad_receive = nullptr;
  errno = ibv_post_recv(device.qp, &receive, &bad_receive);
  if (errno != 0) return failed("ibv_post_recv");
  ibv_send_wr request{};
  request.sg_list = &from;
  request.num_sge = 1;
  request.opcode = IBV_WR_SEND;
  request.send_flags = IBV_SEND_SIGNALED;
  ibv_send_wr* bad = nullptr;
  errno = ibv_post_send(device.qp, &request, &bad);
  if (errno != 0) return failed("ibv_post_send");
  for (int completed = 0; completed < 2;) {
    ibv_wc completion;
    const int count = ibv_poll_cq(device.cq, 1, &completion);
    if (count < 0) return failed("ibv_poll_cq");
    if (count > 0 && completion.status != IBV_WC_SUCCESS) {
      errno = 0;
      return failed(ibv_wc_status_str(completion.status));
    }
    completed += count;
  }
  return 0;
}

int close(Device& device) {
  errno = ibv_destroy_qp(device.qp);
  if (errno == 0) errno = ibv_dereg_mr(device.mr);
  if (errno == 0) errno = ibv_destroy_cq(device.cq);
  if (errno == 0) errno = ibv_dealloc_pd(device.pd);
  if (errno != 0) return failed("destroying");
  return ibv_close_device(device.context) != 0 ? failed("ibv_close_device") : 0;
}

/// All in a thread with the smallest stack that programs give theirs.
void* on_small_stack(void* surrounded) {
  static Device device;
  const auto& [name, enter] = *static_cast<const Surrounding*>(surrounded);
  static int status;
  status = open(device);
  if (status == 0) status = connect(device);
  if (status == 0 && !enter()) status = failed(name);
  if (status == 0) status = send(device);
  if (status == 0) status = close(device);
  return &status;
}

int run(const Surrounding& surrounding, const std::string& when) {
  Device device;
  if (when == "thread") {
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 64 << 10);
    pthread_t thread{};
    if (pthread_create(&thread, &small, on_small_stack, const_cast<Surrounding*>(&surrounding))) {
      return failed("pthread_create");
    }
    void* status = nullptr;
    pthread_join(thread, &status);
    return *static_cast<int*>(status);
  }
  if (when == "before" && !surrounding.enter()) return failed(surrounding.name);
  if (const int status = open(device)) return status;
  if (when == "opened" && !surrounding.enter()) return failed(surrounding.name);
  if (const int status = connect(device)) return status;
  if (when == "connected" && !surrounding.enter()) return failed(surrounding.name);
  if (const int status = send(device)) return status;
  return close(device);
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 3) return 2;
  for (const Surrounding& surrounding : kSurroundings) {
    if (std::string(arguments[1]) != surrounding.name) continue;
    const int status = run(surrounding, arguments[2]);
    if (status == 0 && write(1, "ok\n", 3) < 0 && write(200, "ok\n", 3) < 0) return 3;
    return status;
  }
  return 2;
}
