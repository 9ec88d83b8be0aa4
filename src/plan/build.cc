// SPDX-License-Identifier: Apache-2.0
// From an algorithm and a shape to one rank's plan. Called by comm/, the isthmus tool and tests; refuses (invalid_argument) ranks that
// the algorithm does not serve and codecs that it has no use for.
#include <fmt/core.h>

#include "plan/builder.h"

namespace isthmus::plan {

namespace {

/// Whether the algorithm can do with the shape's codec what it is about to do.
Status check_codec(const Algorithm& algorithm, const Shape& shape) {
  const codec::Codec* codec = shape.codec;
  const auto refuse = [&](std::string_view why) {
    return invalid_argument(fmt::format("algorithm {}/{} {}, but {}", isthmus::name_of(algorithm.collective), algorithm.name, why,
                                        codec == nullptr ? "no codec is given" : fmt::format("codec {} is asked for", codec->name)));
  };
  switch (algorithm.needs.coding) {
    case Coding::none:
      return codec == nullptr ? Status() : refuse("sends elements as they are");
    case Coding::sums:
      if (codec == nullptr || !codes_with(algorithm, *codec)) return refuse("adds encodings, so it needs a homomorphic codec");
      if (static_cast<uint32_t>(shape.group.size) <= codec->max_summands) return {};
      return refuse(fmt::format("would add {} encodings, of which {} can be added", shape.group.size, codec->max_summands));
    case Coding::decoding:
      if (codec == nullptr || !codes_with(algorithm, *codec)) return refuse("needs a codec whose encodings have their own scales");
      return {};
  }
  return {};
}

}  // namespace

Result<Plan> build(const Algorithm& algorithm, const Shape& shape, int32_t ranks) {
  if (algorithm.collective != shape.collective || !serves(algorithm, shape.group.size)) {
    return invalid_argument(fmt::format("algorithm {}/{} does not serve {} over {} ranks", isthmus::name_of(algorithm.collective),
                                        algorithm.name, isthmus::name_of(shape.collective), shape.group.size));
  }
  ISTHMUS_TRY(check_codec(algorithm, shape));
  Builder builder(shape, algorithm.name, ranks);
  builder.use_codec(shape.codec);
  algorithm.emit(shape, builder);
  return builder.finish();
}

}  // namespace isthmus::plan
