// SPDX-License-Identifier: Apache-2.0
// Rules, and the decision. See compression.h.
#include "comm/compression.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"

namespace isthmus::comm {
namespace {

constexpr std::string_view kWords = "min=BYTES, max=BYTES, type=float,half,bfloat16, name=PATTERN and crossing";

bool can_encode(DataType type) { return type == DataType::float32 || type == DataType::float16 || type == DataType::bfloat16; }

/// Whether `text` is what the pattern means.
bool matches(std::string_view pattern, std::string_view text) {
  if (pattern.empty()) return text.empty();
  if (pattern.front() == '*') {
    return matches(pattern.substr(1), text) || (!text.empty() && matches(pattern, text.substr(1)));
  }
  return !text.empty() && (pattern.front() == '?' || pattern.front() == text.front()) && matches(pattern.substr(1), text.substr(1));
}

Status add_types(std::string_view value, std::vector<DataType>& types) {
  for (const std::string_view word : split(value, ',')) {
    for (const DataType type : {DataType::float32, DataType::float16, DataType::bfloat16}) {
      if (name_of(type) == word) types.push_back(type);
    }
  }
  if (types.size() == split(value, ',').size() && !types.empty()) return {};
  return invalid_argument("codecs serve the types float, half and bfloat16; several have commas between them");
}

Status set(CompressionRule& rule, std::string_view word) {
  const size_t equals = word.find('=');
  const std::string_view key = word.substr(0, equals);
  const std::string_view value = equals == std::string_view::npos ? "" : word.substr(equals + 1);
  if (word == "crossing") {
    rule.crossing = true;
  } else if (key == "min" || key == "max") {
    ISTHMUS_ASSIGN((key == "min" ? rule.min_bytes : rule.max_bytes), parse_bytes(value));
  } else if (key == "type") {
    return add_types(value, rule.types);
  } else if (key == "name" && !value.empty()) {
    rule.name = value;
  } else {
    return invalid_argument(fmt::format("after the codec come {}", kWords));
  }
  return {};
}

}  // namespace

Result<std::vector<CompressionRule>> parse_compression_rules(std::string_view text) {
  std::vector<CompressionRule> rules;
  for (const std::string_view part : split(text, ';')) {
    CompressionRule rule;
    for (const std::string_view word : split(part, ' ')) {
      const bool first = rule.codec.empty();
      if (first) rule.codec = word;
      if (Status status = first ? codec::check_name(word) : set(rule, word); !status.ok()) {
        return status.with_context(fmt::format("'{}' in the rule '{}'", word, part));
      }
    }
    if (rule.min_bytes > rule.max_bytes) return invalid_argument(fmt::format("the rule '{}' is for no size: min is above max", part));
    rules.push_back(std::move(rule));
  }
  return rules;
}

Result<Compression> Compression::make(std::string_view rules, bool must, codec::Codecs& codecs, int32_t ranks, std::string_view name,
                                      bool crossing) {
  Compression made;
  made.ranks_ = ranks;
  auto parsed = parse_compression_rules(rules);
  if (!parsed.ok()) return parsed.status().with_context("ISTHMUS_COMPRESSION");
  for (CompressionRule& rule : *parsed) {
    if (!matches(rule.name, name) || (rule.crossing && !crossing) || ranks < 2) continue;
    auto codec = codecs.get(rule.codec, static_cast<uint32_t>(ranks));
    if (!codec.ok()) return codec.status().with_context("ISTHMUS_COMPRESSION");
    if ((*codec)->feeds_back()) {
      return invalid_argument(
          fmt::format("ISTHMUS_COMPRESSION: '{}' keeps what was lost for the next call, but a rule has no place to keep "
                      "it: use isthmusAllReduceCompressed with an isthmusFeedback_t",
                      rule.codec));
    }
    const CodecWish wish = {.codec = *codec, .min_bytes = rule.min_bytes, .must = must};
    made.rules_.push_back({std::move(rule), wish});
  }
  return made;
}

const CodecWish* Compression::by_rule(const CodecQuestion& question) const {
  for (const Rule& entry : rules_) {
    const CompressionRule& rule = entry.rule;
    if (question.bytes < rule.min_bytes || question.bytes > rule.max_bytes) continue;
    if (!rule.types.empty() && std::find(rule.types.begin(), rule.types.end(), question.type) == rule.types.end()) continue;
    return &entry.wish;
  }
  return nullptr;
}

// Why the wish cannot be met, or "".
std::string Compression::fault(const CodecWish& wish, const CodecQuestion& question, Reason& reason) const {
  if (!can_encode(question.type)) {
    reason = Reason::type;
    return fmt::format("codecs serve {}, {} and {}, not {}", name_of(DataType::float32), name_of(DataType::float16),
                       name_of(DataType::bfloat16), name_of(question.type));
  }
  if (question.op != ReduceOp::sum && question.op != ReduceOp::avg) {
    reason = Reason::op;
    return fmt::format("it serves sum and avg, not {}", name_of(question.op));
  }
  if (question.scaled && wish.residual != nullptr) {
    reason = Reason::op;
    return "error feedback cannot be kept for a sum that multiplies its elements (PreMulSum)";
  }
  if (question.bytes < wish.min_bytes) {
    reason = Reason::size;
    return fmt::format("{} bytes are less than the {} from which on it is worth it", question.bytes, wish.min_bytes);
  }
  if (ranks_ < 2) {
    reason = Reason::ranks;
    return "there is one rank only, which sends nothing";
  }
  return {};
}

Result<CodecWish> Compression::decide(const CodecWish& own, const CodecQuestion& question, const Logger& log) {
  const bool reduces = question.collective == Collective::allreduce || question.collective == Collective::reduce_scatter;
  const CodecWish* wish = own.given() ? &own : !reduces ? nullptr : wish_.given() ? &wish_ : by_rule(question);
  if (wish == nullptr || wish->codec->codec == nullptr) return CodecWish{};
  Reason reason = Reason::type;
  std::string why = fault(*wish, question, reason);
  if (why.empty()) return *wish;
  why = fmt::format("{} of {} is not compressed with {}: {}", name_of(question.collective), name_of(question.type), wish->codec->text, why);
  ++refused_[static_cast<size_t>(reason)];
  used_ = nullptr;
  refusal_ = why;
  if (wish->must) return invalid_argument(why);
  // Each reason once for each kind of call, whatever its size.
  const std::string kind = fmt::format("{} {} {}", name_of(question.collective), name_of(question.type), static_cast<int>(reason));
  if (said_.insert(kind).second) log.warn("{}; it goes as it is (said once)", why);
  return CodecWish{};
}

}  // namespace isthmus::comm
