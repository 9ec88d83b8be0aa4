// SPDX-License-Identifier: Apache-2.0
// Text within XML documents. Used by all that draws SVG. Pure; nothing here fails.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace isthmus {

/// Names come from variables and files: whatever they hold, the document stays well-formed. Bytes that are no UTF-8, or no character that
/// XML allows, become '?'. After `max_letters` characters "…" stands for the rest.
std::string xml_text(std::string_view text, size_t max_letters = SIZE_MAX);

}  // namespace isthmus
