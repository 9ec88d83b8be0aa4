// SPDX-License-Identifier: Apache-2.0
// xml.h.
#include "base/xml.h"

#include <algorithm>

namespace isthmus {
namespace {

/// How many bytes at the beginning of `text` are one character of well-formed UTF-8 that XML allows; 0 if none.
size_t character_bytes(std::string_view text) {
  const auto byte = [&](size_t at) { return at < text.size() ? static_cast<unsigned char>(text[at]) : 0U; };
  const unsigned first = byte(0);
  if (first < 0x80) return first < 0x20 || first == 0x7f ? 0 : 1;
  const size_t size = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4) return 0;
  for (size_t at = 1; at < size; ++at)
    if ((byte(at) & 0xc0) != 0x80) return 0;
  const bool overlong = (first == 0xe0 && byte(1) < 0xa0) || (first == 0xf0 && byte(1) < 0x90);
  const bool outside =
      (first == 0xed && byte(1) >= 0xa0) || (first == 0xf4 && byte(1) >= 0x90) || (first == 0xef && byte(1) == 0xbf && byte(2) >= 0xbe);
  return overlong || outside ? 0 : size;
}

}  // namespace

std::string xml_text(std::string_view text, size_t max_letters) {
  std::string out;
  for (size_t shown = 0; !text.empty(); ++shown) {
    if (shown == max_letters) return out + "…";
    const size_t size = character_bytes(text);
    const std::string_view character = text.substr(0, std::max<size_t>(size, 1));
    text.remove_prefix(character.size());
    if (size == 0)
      out += '?';
    else if (character == "&")
      out += "&amp;";
    else if (character == "<")
      out += "&lt;";
    else if (character == ">")
      out += "&gt;";
    else if (character == "\"")
      out += "&quot;";
    else
      out += character;
  }
  return out;
}

}  // namespace isthmus
