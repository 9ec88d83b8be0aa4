// SPDX-License-Identifier: Apache-2.0
// What a node of `isthmus run` says to the launcher, after whatever a login command printed first.
#include "cli/run/frame.h"
#include "target.h"

namespace isthmus::fuzz {

using namespace cli;

void run(Input input) {
  const bool greeted = (take_byte(input) & 1) != 0;
  const size_t piece = 1 + take_byte(input);
  FrameReader reader(greeted ? kNodeHello : std::string_view());
  std::string_view rest = text_of(input);
  while (!rest.empty()) {
    const std::string_view bytes = rest.substr(0, piece);
    rest.remove_prefix(bytes.size());
    reader.feed(bytes);
    for (;;) {
      const auto frame = reader.next();
      if (!frame.ok()) return;
      if (!frame->has_value()) break;
      promise(text_of(input).find(encode(**frame)) != std::string_view::npos, "a frame is what was said");
    }
  }
}

std::vector<Bytes> seeds() {
  std::string said;
  for (const FrameKind kind :
       {FrameKind::started, FrameKind::output, FrameKind::request, FrameKind::left, FrameKind::exited, FrameKind::failed}) {
    said += encode({.kind = kind, .rank = 1, .payload = "123"});
  }
  const Bytes plain = to_bytes(said), greeted = to_bytes("Welcome!\n" + std::string(kNodeHello) + said);
  return {tagged(0, tagged(255, plain)), tagged(0, tagged(2, plain)), tagged(1, tagged(255, greeted)), tagged(1, tagged(0, greeted))};
}

}  // namespace isthmus::fuzz
