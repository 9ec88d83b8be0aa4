// SPDX-License-Identifier: Apache-2.0
// Codecs by the text with which users name them: "none", "bf16", "int8", "int4", "thc:b=4,p=1/32". Held by Process, which makes each
// once; tools that need one make their own. Fails with invalid_argument that says what is wrong in the text.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "base/status.h"
#include "codec/codec.h"
#include "codec/thc.h"

namespace isthmus::codec {

/// A codec for one number of ranks, with the shortest text that names it.
struct Named {
  std::string text;
  const Codec* codec = nullptr;  ///< null: "none"
  uint64_t hash = 0;             ///< equal on ranks that understand each other
  std::unique_ptr<const Thc> thc;

  [[nodiscard]] bool feeds_back() const { return thc != nullptr && thc->config.feedback; }
};

/// Checks the text alone, for settings and command lines that are read before the number of ranks is known.
Status check_name(std::string_view text);

class Codecs {
 public:
  /// The codec named `text` for a sum over `ranks` ranks; it lives as long as this.
  Result<const Named*> get(std::string_view text, uint32_t ranks);

 private:
  std::map<std::pair<std::string, uint32_t>, std::unique_ptr<const Named>, std::less<>> named_;
};

}  // namespace isthmus::codec
