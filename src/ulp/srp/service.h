#pragma once

#include <string>

#include "ulp/srp/port.h"

namespace verbatim::ulp::srp {

/// What listens for SRP: takes logins, or says why not. The ports outlive it.
class Service final : public storage::Service {
 public:
  explicit Service(Ports& ports) : ports_(ports) {}
  storage::Verdict on_meeting(const Meeting& meeting, TimeNs now) override;
  void on_gone(const storage::Session&) override {}

 private:
  struct Refusal {
    RejectReason reason{};
    std::string words;  // Empty: there is none.
  };
  Refusal refusal_of(const LoginRequest& request, const Meeting& meeting);

  Ports& ports_;
};

}  // namespace verbatim::ulp::srp
