#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "base/error.h"
#include "base/time.h"
#include "service/clients.h"
#include "service/folder.h"
#include "service/loop.h"

/// How commands talk to a daemon: questions and answers in JSON over a socket of the user's runtime
/// folder. A question is an object whose member "ask" says what is asked.
namespace verbatim::service {

/// Names a daemon: kind "target", "ipoib", "nfs", "rds", "lnet"; and a name of the user's. Its
/// files are `ulp+KIND+NAME.sock`, `.lock` and `.log`: no node has such a name.
struct ServiceName {
  std::string kind;
  std::string name = "default";
  std::string text() const { return kind + " '" + name + "'"; }
  friend auto operator<=>(const ServiceName&, const ServiceName&) = default;
};

/// The side of the daemon.
class Control {
 public:
  using Answer = std::function<Result<nlohmann::json>(const nlohmann::json& question)>;
  /// EEXIST: one of this name runs. Holds the lock as long as it lives.
  static Result<std::unique_ptr<Control>> open(const ServiceName& name, Loop& loop);
  ~Control();

  void on(const std::string& ask, Answer answer);

 private:
  Control(RuntimeFolder folder, std::string file, LockFile lock);
  Result<void> answer(Client& client, const Incoming& incoming);

  const RuntimeFolder folder_;
  const std::string file_;  // Of the runtime folder, without its ending.
  LockFile lock_;
  std::map<std::string, Answer> answers_;
  std::unique_ptr<Clients> clients_;
};

/// The side of a command. ENOENT: none of this name runs; ETIMEDOUT: it does not answer.
Result<nlohmann::json> ask(const ServiceName& name, const nlohmann::json& question,
                           TimeNs patience = 10 * kSecond);

/// Ends it and waits until its process has ended. ENOENT: none of this name runs; ETIMEDOUT.
Result<void> end(const ServiceName& name, TimeNs patience = 10 * kSecond);
/// Asks all, together within `patience`: one that does not answer takes no time of the others'.
std::vector<Result<nlohmann::json>> ask(const std::vector<ServiceName>& names,
                                        const nlohmann::json& question, TimeNs patience);

/// The path of a folder that the daemon may have beside its socket, for files of its own.
Result<std::string> folder_of(const ServiceName& name);
/// All that have a socket in the runtime folder. A daemon that was killed leaves one.
std::vector<ServiceName> services();
/// The process that has the daemon's lock; 0: none.
pid_t process_of(const ServiceName& name);

}  // namespace verbatim::service
