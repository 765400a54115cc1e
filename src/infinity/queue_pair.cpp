#include <algorithm>
#include <cerrno>
#include <cstring>
#include <random>

#include <infinity/core/Configuration.h>
#include <infinity/queues/QueuePair.h>

#include "infinity/device.h"
#include "infinity/failure.h"
#include "infinity/meeting/manager.h"
#include "infinity/meeting/peer.h"

namespace infinity::queues {

using detail::fail;
using detail::refuse;

int OperationFlags::ibvFlags() {
  return (fenced ? IBV_SEND_FENCE : 0) | (signaled ? IBV_SEND_SIGNALED : 0) |
         (inlined ? IBV_SEND_INLINE : 0);
}

QueuePair::QueuePair(core::Context* of)
    : context(of),
      ibvQueuePair(nullptr),
      sequenceNumber(std::random_device()() & 0xffffff),
      userData(nullptr),
      userDataSize(0),
      unsignaled_(0),
      isReported_(false) {
  create();
  const detail::Device& device = *context->device_;
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_INIT;
  attributes.port_num = device.port_number;
  attributes.qp_access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ |
                               IBV_ACCESS_REMOTE_WRITE | device.atomic_access();
  if (const int code =
          ibv_modify_qp(ibvQueuePair, &attributes,
                        IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
      code != 0) {
    ibv_destroy_qp(ibvQueuePair);
    fail(code, "QueuePair: a new queue pair cannot be initialised");
  }
}

/// Uses Infinity's queue lengths, with four segments and some inline data if the device allows
/// that; otherwise one segment and none, and shorter queues until it succeeds.
void QueuePair::create() {
  constexpr uint32_t kElements = 4;
  constexpr uint32_t kInlineBytes = 64;
  constexpr uint32_t kRequestsMin = 16;
  const detail::Device& device = *context->device_;
  const auto most = [](uint32_t wanted, int limit) {
    return std::min(wanted, static_cast<uint32_t>(std::max(limit, 1)));
  };
  ibv_qp_init_attr wanted{};
  wanted.send_cq = context->getSendCompletionQueue();
  wanted.recv_cq = context->getReceiveCompletionQueue();
  wanted.srq = context->getSharedReceiveQueue();
  wanted.qp_type = IBV_QPT_RC;
  wanted.cap.max_send_wr =
      most(core::Configuration::SEND_COMPLETION_QUEUE_LENGTH, device.limits.max_qp_wr);
  wanted.cap.max_send_sge = most(kElements, device.limits.max_sge);
  wanted.cap.max_recv_sge = 1;
  wanted.cap.max_inline_data = kInlineBytes;
  for (;;) {
    ibv_qp_init_attr given = wanted;
    ibvQueuePair = ibv_create_qp(context->getProtectionDomain(), &given);
    if (ibvQueuePair != nullptr) {
      sendRequests_ = std::min(given.cap.max_send_wr, wanted.cap.max_send_wr);
      sendElements_ = given.cap.max_send_sge;
      inlineBytes_ = given.cap.max_inline_data;
      return;
    }
    if (wanted.cap.max_inline_data > 0) {
      wanted.cap.max_send_sge = 1;
      wanted.cap.max_inline_data = 0;
    } else if (wanted.cap.max_send_wr > kRequestsMin) {
      wanted.cap.max_send_wr /= 2;
    } else {
      fail(errno, "QueuePair: the device makes no more queue pairs, or no memory can be pinned");
    }
  }
}

/// From now on, messages of this queue pair are reported as those of `as`.
void QueuePair::enroll(QueuePair* as) { context->enroll(getQueuePairNumber(), as); }

QueuePair::~QueuePair() {
  context->forget(this);
  manager_.reset();
  twin_.reset();
  ibv_destroy_qp(ibvQueuePair);
  delete[] static_cast<char*>(userData);
}

void QueuePair::activate(uint16_t remoteDeviceId, uint32_t remoteQueuePairNumber,
                         uint32_t remoteSequenceNumber) {
  detail::PeerAddress peer;
  peer.lid = remoteDeviceId;
  peer.queue_pair = remoteQueuePairNumber;
  peer.sequence_number = remoteSequenceNumber;
  activate(peer);
}

void QueuePair::activate(const detail::PeerAddress& peer) {
  constexpr uint8_t kReceiverNotReadyTimer = 12;  // 0.64 ms.
  constexpr uint8_t kAckTimeout = 14;             // 67 ms.
  constexpr uint8_t kRetries = 7;                 // For RNR: without limit.
  constexpr uint8_t kHopLimit = 64;
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_RTR;
  attributes.path_mtu = peer.mtu;
  attributes.dest_qp_num = peer.queue_pair;
  attributes.rq_psn = peer.sequence_number;
  attributes.max_dest_rd_atomic = peer.reads;
  attributes.min_rnr_timer = kReceiverNotReadyTimer;
  attributes.ah_attr.dlid = peer.lid;
  attributes.ah_attr.port_num = context->device_->port_number;
  if (peer.gid) {
    attributes.ah_attr.is_global = 1;
    attributes.ah_attr.grh.dgid = *peer.gid;
    attributes.ah_attr.grh.sgid_index = peer.own_gid_index;
    attributes.ah_attr.grh.hop_limit = kHopLimit;
  }
  int code = ibv_modify_qp(ibvQueuePair, &attributes,
                           IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                               IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
  if (code != 0) fail(code, "QueuePair: the peer's address cannot be reached");

  attributes = {};
  attributes.qp_state = IBV_QPS_RTS;
  attributes.timeout = kAckTimeout;
  attributes.retry_cnt = kRetries;
  attributes.rnr_retry = kRetries;
  attributes.sq_psn = sequenceNumber;
  attributes.max_rd_atomic = peer.reads;
  code = ibv_modify_qp(ibvQueuePair, &attributes,
                       IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                           IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
  if (code != 0) fail(code, "QueuePair: the queue pair cannot be made ready to send");
}

void QueuePair::setRemoteUserData(void* data, uint32_t size) {
  if (size == 0) return;
  delete[] static_cast<char*>(userData);
  userData = new char[size];
  userDataSize = size;
  std::memcpy(userData, data, size);
}

bool QueuePair::hasUserData() { return userDataSize != 0; }
uint32_t QueuePair::getUserDataSize() { return userDataSize; }
void* QueuePair::getUserData() { return userData; }

uint16_t QueuePair::getLocalDeviceId() { return context->getLocalDeviceId(); }
uint32_t QueuePair::getQueuePairNumber() { return ibvQueuePair->qp_num; }
uint32_t QueuePair::getSequenceNumber() { return sequenceNumber; }

}  // namespace infinity::queues
