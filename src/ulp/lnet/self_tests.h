#pragma once

#include <algorithm>

#include "ulp/lnet/self_test_client.h"
#include "ulp/lnet/self_test_server.h"

namespace verbatim::ulp::lnet {

/// Both sides of self-tests at a node's portals.
class SelfTest final : public Portals {
 public:
  explicit SelfTest(Node& node) : node_(node), server_(node), client_(node) { node.use(this); }
  ~SelfTest() override { node_.use(nullptr); }
  SelfTestClient& client() { return client_; }
  const SelfTestServer& server() const { return server_; }

  void on_put(const LnetHeader& header, ByteSpan payload, TimeNs now) override {
    if (header.portal == kAnswerPortal) return client_.on_put(header, payload, now);
    if (header.portal != kTestPortal && header.portal != kFrameworkPortal) return;
    if (const auto request = TestMessage::decode(payload); request && !request->is_answer())
      server_.on_request(header.source, *request, now);
  }
  bool wants(const LnetHeader& put) override { return client_.wants(put); }
  std::optional<Buffer> find(const LnetHeader& get) override { return client_.find(get); }
  void on_given(const LnetHeader& get, const Buffer& buffer) override {
    client_.on_given(get, buffer);
  }
  void on_time(TimeNs now) override { server_.on_time(now), client_.on_time(now); }
  TimeNs deadline() const override { return std::min(server_.deadline(), client_.deadline()); }

 private:
  Node& node_;
  SelfTestServer server_;
  SelfTestClient client_;
};

}  // namespace verbatim::ulp::lnet
