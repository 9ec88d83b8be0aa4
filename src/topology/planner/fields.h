// SPDX-License-Identifier: Apache-2.0
// Reading objects of JSON files that people may edit: each field by name, with an error that says which field, and what is accepted.
// Used by profiles and plan files. The first error is held.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace isthmus::topology {

using Json = nlohmann::ordered_json;

/// Reads an object's fields one by one, and afterwards knows which it was not asked for.
class Fields {
 public:
  Fields(const Json& json, std::string where) : json_(json), where_(std::move(where)) {
    if (!json.is_object()) fail("must be an object");
  }

  template <typename T>
  void number(const char* key, T& value, uint64_t most = static_cast<uint64_t>(std::numeric_limits<T>::max())) {
    const Json* field = find(key);
    if (field == nullptr) return;
    if (!field->is_number_unsigned() || field->get<uint64_t>() > most) {
      return fail(fmt::format("{}: a whole number from 0 to {} is accepted", key, most));
    }
    value = static_cast<T>(field->get<uint64_t>());
  }
  void flag(const char* key, bool& value) {
    const Json* field = find(key);
    if (field == nullptr) return;
    if (!field->is_boolean()) return fail(fmt::format("{}: true or false is accepted", key));
    value = field->get<bool>();
  }
  void text(const char* key, std::string& value) {
    const Json* field = find(key);
    if (field == nullptr) return;
    if (!field->is_string()) return fail(fmt::format("{}: text is accepted", key));
    value = field->get<std::string>();
  }
  const Json* find(const char* key) {
    asked_.push_back(key);
    if (!status_.ok()) return nullptr;
    const auto found = json_.find(key);
    return found == json_.end() ? nullptr : &*found;
  }
  void fail(const std::string& what) {
    if (status_.ok()) status_ = invalid_argument(fmt::format("{}: {}", where_, what));
  }
  [[nodiscard]] const std::string& where() const { return where_; }
  [[nodiscard]] bool ok() const { return status_.ok(); }

  /// Fails if there are fields that nobody asked for.
  Status finish() {
    std::vector<std::string> unknown;
    ISTHMUS_TRY(finish(unknown));
    if (!unknown.empty()) return invalid_argument(unknown.front());
    return {};
  }
  /// The same, but such fields become lines of `warnings`.
  Status finish(std::vector<std::string>& warnings) {
    if (!status_.ok()) return status_;
    for (const auto& [key, value] : json_.items()) {
      if (std::find(asked_.begin(), asked_.end(), key) != asked_.end()) continue;
      std::string known;
      for (const std::string_view one : asked_) known += fmt::format("{}{}", known.empty() ? "" : ", ", one);
      warnings.push_back(fmt::format("{}: '{}' is not known; there are {}", where_, key, known));
    }
    return {};
  }

 private:
  const Json& json_;
  std::string where_;
  std::vector<std::string_view> asked_;
  Status status_;
};

}  // namespace isthmus::topology
