// SPDX-License-Identifier: Apache-2.0
// From texts to codecs. See named.h.
#include "codec/named.h"

#include <fmt/format.h>

#include "base/hash.h"
#include "base/text.h"

namespace isthmus::codec {
namespace {

bool is_thc(std::string_view text) { return trim(text.substr(0, text.find(':'))) == "thc"; }

Status unknown(std::string_view text) {
  return invalid_argument(
      fmt::format("'{}' is no codec: there are none, bf16, int8, int4 and thc, which takes options (thc:b=4,p=1/32)", text));
}

Result<std::unique_ptr<const Named>> make(std::string_view text, uint32_t ranks) {
  auto named = std::make_unique<Named>();
  if (is_thc(text)) {
    ISTHMUS_ASSIGN(const ThcConfig config, parse_thc(text));
    ISTHMUS_ASSIGN(named->thc, make_thc(config, ranks));
    named->text = to_text(config);
    named->codec = &named->thc->codec;
    named->hash = named->thc->hash;
    return std::unique_ptr<const Named>(std::move(named));
  }
  named->codec = find(text);
  if (named->codec == nullptr && text != "none") return unknown(text);
  named->text = text;
  named->hash = hash_text(text);
  return std::unique_ptr<const Named>(std::move(named));
}

}  // namespace

Status check_name(std::string_view text) {
  text = trim(text);
  if (is_thc(text)) return parse_thc(text).status();
  return text == "none" || find(text) != nullptr ? Status() : unknown(text);
}

Result<const Named*> Codecs::get(std::string_view text, uint32_t ranks) {
  text = trim(text);
  const auto found = named_.find(std::pair<std::string, uint32_t>(text, ranks));
  if (found != named_.end()) return found->second.get();
  ISTHMUS_ASSIGN(auto named, make(text, ranks));
  return named_.emplace(std::pair<std::string, uint32_t>(text, ranks), std::move(named)).first->second.get();
}

}  // namespace isthmus::codec
