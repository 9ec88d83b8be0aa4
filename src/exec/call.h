// SPDX-License-Identifier: Apache-2.0
// What the engine is asked to do: a call (a program bound to buffers) and the ticket that says when it is over. Made by comm/,
// consumed by exec/. Signatures also become the words of mismatch errors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"
#include "base/types.h"
#include "codec/codec.h"
#include "exec/program.h"
#include "kernels/reduce.h"
#include "wire/frame.h"

namespace isthmus::exec {

/// What the user asked for, as all ranks must agree on it.
struct Signature {
  Collective collective = Collective::allreduce;
  DataType type = DataType::float32;
  ReduceOp op = ReduceOp::sum;
  bool scaled = false;  ///< PreMulSum (the scalar itself may differ between ranks)
  int32_t root = -1;
  uint64_t count = 0;       ///< elements per block
  uint32_t sequence = 0;    ///< number of the call in its class on this communicator
  std::string_view coding;  ///< the codec's text (static storage) where elements travel encoded; "": they do not

  /// "call #7 allreduce count 1024 float sum", "send/recv count 10 float".
  [[nodiscard]] std::string to_text() const;
  /// Hash of everything above and of `plan_tag`, a hash of how the call is to be carried out (algorithm, tunables, codec, version).
  [[nodiscard]] uint64_t key(uint64_t communicator, uint64_t plan_tag) const { return key(kind_key(communicator, plan_tag)); }
  /// The same in two parts: what calls of one kind share (never 0), and the sequence.
  [[nodiscard]] uint64_t kind_key(uint64_t communicator, uint64_t plan_tag) const;
  [[nodiscard]] uint64_t key(uint64_t kind_key) const { return kind_key + sequence * kKeyStep; }

 private:
  /// Odd, so that no two numbers give a kind the same key; kinds are hashes, so theirs differ as hashes do.
  static constexpr uint64_t kKeyStep = 0x9E3779B97F4A7C15;
};

/// Tells the submitter that a call is over. Owned by the submitter; must outlive the call.
struct Ticket {
  bool done = false;
  Status status;
};

/// What calls with a codec have done on this rank.
struct Coded {
  uint64_t calls = 0;
  uint64_t sent_bytes = 0;  ///< of messages, without headers
  // Of every 64th piece that this rank has encoded:
  double energy = 0;  ///< sum of squares of its elements
  double error = 0;   ///< sum of squares of what the encoding does not hold of them
};

/// Of the latest call to end, and of all.
struct CodedCalls {
  Coded last, all;
};

/// What a call with a codec is given beside its plan, which names the codec.
struct Coding {
  uint64_t seed = 0;  ///< equal on all ranks; with the call's number it decides every random bit
  /// Error feedback: for each element of `in` what is added before encoding, then what was lost; null: none. Whoever else holds it too can
  /// tell that a call uses it.
  std::shared_ptr<float> residual;
  CodedCalls* report = nullptr;  ///< told when the call has ended well; must outlive it; null: nobody asks
};

/// One call on one rank. Spans and pointers to user memory must stay valid until the ticket is done.
struct Call {
  std::shared_ptr<const Program> program;
  Signature signature;
  uint64_t plan_tag = 0;
  uint64_t kind_key = 0;  ///< the signature's, if it is known already
  const std::byte* in = nullptr;
  std::byte* out = nullptr;
  bool scale_in = false;  ///< multiply the input by `scalar` (PreMulSum)
  kernels::Scalar scalar;
  Coding coding;
  /// How it is carried out, for error texts: the algorithm's name (static storage).
  std::string_view how;
  /// Grouped send/recv: buffer, bytes and signature (type and count, on which the two sides must agree) per Place::user region;
  /// `program` is then planned for exactly these.
  std::span<std::byte* const> user_buffers;
  std::span<const uint64_t> user_bytes;
  std::span<const Signature> user_signatures;
  Ticket* ticket = nullptr;
  /// By which of its submitter's choices the call was planned.
  uint32_t choices = 0;
  /// Whoever waits for the call and makes no other before it has ended; null: nobody (it is on a stream).
  const void* caller = nullptr;

  [[nodiscard]] wire::CallClass call_class() const {
    return signature.collective == Collective::sendrecv ? wire::CallClass::send_recv : wire::CallClass::collective;
  }
};

}  // namespace isthmus::exec
