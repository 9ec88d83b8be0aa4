// SPDX-License-Identifier: Apache-2.0
// How calls are asked to be compressed, as text: codecs' names with options, and the rules of ISTHMUS_COMPRESSION.
#include "codec/thc.h"
#include "comm/compression.h"
#include "target.h"

namespace isthmus::fuzz {
namespace {

void look_at_thc(std::string_view text) {
  const auto config = codec::parse_thc(text);
  if (!config.ok()) {
    promise(!config.status().text().empty(), "a refusal says why");
    return;
  }
  const std::string shortest = codec::to_text(*config);
  const auto again = codec::parse_thc(shortest);
  promise(again.ok() && codec::to_text(*again) == shortest, "a codec's options survive");
}

}  // namespace

void run(Input input) {
  const uint8_t tag = take_byte(input);
  if (tag == 't') return look_at_thc(text_of(input));
  const auto rules = comm::parse_compression_rules(text_of(input));
  if (!rules.ok()) {
    promise(!rules.status().text().empty(), "a refusal says why");
    return;
  }
  for (const comm::CompressionRule& rule : *rules) promise(!rule.codec.empty(), "a rule names its codec");
}

std::vector<Bytes> seeds() {
  return {tagged('t', to_bytes("thc:b=4")),
          tagged('t', to_bytes("thc:b=3,g=30,p=0.03,group=64,layout=columns,dither=private,prescale=0,ef=1")),
          tagged('r', to_bytes("thc:b=4 min=4M crossing; bf16 type=float name=grad*")), tagged('r', to_bytes("int8 max=1G;none"))};
}

}  // namespace isthmus::fuzz
