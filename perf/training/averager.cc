// SPDX-License-Identifier: Apache-2.0
// Averages of gradients (see averager.h).
#include "averager.h"

#include <algorithm>
#include <chrono>

#include "sweep/failure.h"

namespace training {
namespace {

using sweep::check;
using Clock = std::chrono::steady_clock;

float* allocate(size_t floats) {
  void* memory = nullptr;
  check(ncclMemAlloc(&memory, floats * sizeof(float)), "ncclMemAlloc");
  std::fill_n(static_cast<float*>(memory), floats, 0.0F);
  return static_cast<float*>(memory);
}

}  // namespace

Buffer::Buffer(size_t floats) : memory_(allocate(floats)), floats_(floats) {}

Averager::Averager(ncclComm_t comm, std::string codec, size_t floats)
    : comm_(comm), codec_(std::move(codec)), own_(floats), averaged_(floats) {
  if (codec_.find("ef=on") != std::string::npos) check(isthmusFeedbackCreate(&feedback_, floats), "isthmusFeedbackCreate");
  how_.codec = codec_.c_str();
  how_.feedback = feedback_;
  how_.required = 1;
  average();  // plans, buffers and connections are there before anything is timed
  restart();
}

Averager::~Averager() {
  if (feedback_ != nullptr) static_cast<void>(isthmusFeedbackDestroy(feedback_));
}

void Averager::average() {
  const Clock::time_point began = Clock::now();
  const float* from = own_.values().data();
  float* to = averaged_.values().data();
  const size_t count = own_.values().size();
  if (compresses()) {
    check(isthmusAllReduceCompressed(from, to, count, ncclFloat32, ncclAvg, &how_, comm_, nullptr), "isthmusAllReduceCompressed");
  } else {
    check(ncclAllReduce(from, to, count, ncclFloat32, ncclAvg, comm_, nullptr), "ncclAllReduce");
  }
  seconds_ += std::chrono::duration<double>(Clock::now() - began).count();
}

void Averager::restart() {
  if (feedback_ != nullptr) check(isthmusFeedbackReset(feedback_), "isthmusFeedbackReset");
  sent_before_ = info().totalSentBytes;
  seconds_ = 0;
}

isthmusCompressionInfo_t Averager::info() const {
  isthmusCompressionInfo_t info = ISTHMUS_COMPRESSION_INFO_INITIALIZER;
  check(isthmusCommGetCompressionInfo(comm_, &info), "isthmusCommGetCompressionInfo");
  return info;
}

}  // namespace training
