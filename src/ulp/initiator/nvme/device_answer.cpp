#include "ulp/initiator/nvme/device_answer.h"

#include <cstring>
#include <utility>

#include "base/types.h"

namespace verbatim::ulp::initiator {

std::string answer_of(int result, std::uint64_t value, ByteSpan data) {
  std::string text(sizeof result + sizeof value, '\0');
  std::memcpy(text.data(), &result, sizeof result);
  std::memcpy(text.data() + sizeof result, &value, sizeof value);
  text.append(reinterpret_cast<const char*>(data.data()), data.size());
  return text;
}

/// The status has the do-not-retry and the more bit where the kernel has them.
NvmeController::OnAnswer passed(const DeviceRequest& request, NvmeControllers::Controlled done) {
  constexpr int kDoNotRetry = 0x4000, kMore = 0x2000;
  return [done = std::move(done),
          is_from_device = request.is_from_device](const NvmeController::Answer& answer) {
    if (answer.code != 0) return done(answer.code, "");
    const nvmeof::Completion& completion = answer.completion;
    const int status = raw(completion.status) | (completion.do_not_retry ? kDoNotRetry : 0) |
                       (completion.has_more ? kMore : 0);
    done(0, answer_of(status, completion.result, is_from_device ? answer.data : ByteSpan{}));
  };
}

}  // namespace verbatim::ulp::initiator
