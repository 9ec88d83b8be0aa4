// SPDX-License-Identifier: Apache-2.0
// Which calls of a communicator travel through which codec, and what came of it: the call's own wish goes before the communicator's, that
// before the rules of ISTHMUS_COMPRESSION. Every rank decides for itself by facts that all ranks share, so all decide alike. What a codec
// cannot serve goes as it is (or fails, where that is asked for); it is counted, and said once. Owned by Communicator, used under the
// driver's lock.
#pragma once

#include <array>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/log.h"
#include "base/status.h"
#include "base/types.h"
#include "codec/named.h"
#include "exec/call.h"

namespace isthmus::comm {

/// Codecs are asked for by size only from here on, unless somebody says otherwise: below, the scales' way there and back costs more than
/// the bytes that are saved.
inline constexpr uint64_t kLeastCompressedBytes = 1 << 20;

/// How somebody wants calls to be compressed.
struct CodecWish {
  const codec::Named* codec = nullptr;  ///< null: no wish. One that names "none" is the wish for none
  std::string_view algorithm;           ///< of the compressed ones; "": chosen. Static storage
  uint64_t min_bytes = 0;               ///< of the larger buffer
  bool must = false;                    ///< what cannot be compressed fails
  std::shared_ptr<float> residual;      ///< error feedback, as in exec::Coding

  [[nodiscard]] bool given() const { return codec != nullptr; }
};

/// One rule of ISTHMUS_COMPRESSION: a codec and which calls it is for.
struct CompressionRule {
  std::string codec;
  uint64_t min_bytes = kLeastCompressedBytes, max_bytes = UINT64_MAX;
  std::vector<DataType> types;  ///< empty: all that codecs can serve
  std::string name = "*";       ///< pattern of the communicator's name: * for anything, ? for one character
  bool crossing = false;        ///< only where not all ranks are at one site
};

/// "thc:b=4 min=4M crossing; bf16 type=float name=grad*": rules between semicolons, the first that fits a call counts.
Result<std::vector<CompressionRule>> parse_compression_rules(std::string_view text);

/// What a call is, for the decision.
struct CodecQuestion {
  Collective collective = Collective::allreduce;
  DataType type = DataType::float32;
  ReduceOp op = ReduceOp::sum;
  bool scaled = false;  ///< PreMulSum
  uint64_t bytes = 0;   ///< of the larger buffer
};

class Compression {
 public:
  enum class Reason : uint8_t { type, op, size, ranks };
  static constexpr size_t kReasons = 4;

  /// Of a communicator: its ranks, its name, whether they are at several sites. Fails where a rule does not suit it.
  static Result<Compression> make(std::string_view rules, bool must, codec::Codecs& codecs, int32_t ranks, std::string_view name,
                                  bool crossing);

  /// The communicator's own wish; one that is not given takes it back.
  void set_wish(const CodecWish& wish) { wish_ = wish; }
  [[nodiscard]] const CodecWish& wish() const { return wish_; }
  [[nodiscard]] bool idle() const { return !wish_.given() && rules_.empty(); }

  /// The wish that serves the call; not given: it goes as it is. Fails with invalid_argument where that is not allowed.
  Result<CodecWish> decide(const CodecWish& own, const CodecQuestion& question, const Logger& log);

  [[nodiscard]] exec::CodedCalls& calls() { return calls_; }
  [[nodiscard]] const std::array<uint64_t, kReasons>& refused() const { return refused_; }
  /// Of the latest call that somebody wanted compressed: why it was not, or "".
  [[nodiscard]] const std::string& refusal() const { return refusal_; }
  /// The codec that it went through instead; null if it did not.
  [[nodiscard]] const codec::Named* used() const { return used_; }
  void use(const codec::Named& codec, std::string_view algorithm) {
    used_ = &codec;
    algorithm_ = algorithm;
    refusal_.clear();
  }
  [[nodiscard]] std::string_view algorithm() const { return algorithm_; }

 private:
  struct Rule {
    CompressionRule rule;
    CodecWish wish;
  };
  [[nodiscard]] const CodecWish* by_rule(const CodecQuestion& question) const;
  [[nodiscard]] std::string fault(const CodecWish& wish, const CodecQuestion& question, Reason& reason) const;

  int32_t ranks_ = 1;
  std::vector<Rule> rules_;  ///< that concern this communicator
  CodecWish wish_;
  exec::CodedCalls calls_;
  std::array<uint64_t, kReasons> refused_{};
  std::set<std::string> said_;
  std::string refusal_;
  const codec::Named* used_ = nullptr;
  std::string_view algorithm_;
};

}  // namespace isthmus::comm
