// SPDX-License-Identifier: Apache-2.0
// Status and Result<T>: how every room reports failure. Used everywhere; nothing here can fail.
// A success is one null pointer, so passing a Status through the fast path costs nothing.
#pragma once

#include <cassert>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace isthmus {

/// What went wrong, in the terms of ncclResult_t (api/ maps one to one).
enum class Code : unsigned char {
  ok,
  system_error,      ///< a call into the operating system failed; the text carries errno's words
  internal_error,    ///< a bug of ours; never used for a peer's failure
  invalid_argument,  ///< the caller's argument is wrong; nothing was changed
  invalid_usage,     ///< the call is wrong at this moment (mismatch between ranks, after abort, ...)
  remote_error,      ///< a peer died, was unreachable or reported an error
  in_progress,       ///< not finished yet; only from state machines and non-blocking calls
  timeout,           ///< a deadline passed
};

/// The code's stable lower-case name ("remote_error").
std::string_view code_name(Code code);

/// Success, or a code with the rank where it began (-1: unknown or no rank) and a text that says what, where and what to do.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Code code, std::string text, int origin_rank = -1);
  Status(const Status& other) {
    if (other.detail_ != nullptr) [[unlikely]]
      detail_ = copy_of(*other.detail_);
  }
  Status& operator=(const Status& other);
  Status(Status&&) noexcept = default;
  Status& operator=(Status&&) noexcept = default;

  [[nodiscard]] bool ok() const { return detail_ == nullptr; }
  [[nodiscard]] Code code() const { return detail_ ? detail_->code : Code::ok; }
  [[nodiscard]] int origin_rank() const { return detail_ ? detail_->origin_rank : -1; }
  [[nodiscard]] const std::string& text() const;

  /// The same failure with "context: " put before its text; success stays success.
  Status with_context(std::string_view context) const;

 private:
  struct Detail {
    Code code;
    int origin_rank;
    std::string text;
  };
  static std::unique_ptr<Detail> copy_of(const Detail& detail);

  std::unique_ptr<Detail> detail_;
};

// One short maker per code keeps error sites readable: return invalid_argument(fmt::format(...)).
Status system_error(std::string text, int origin_rank = -1);
/// System error with errno's own words appended: "connect to 10.0.0.1:4000: Connection refused", and advice where files are short.
Status errno_error(std::string_view what, int error_number);
Status internal_error(std::string text, int origin_rank = -1);
Status invalid_argument(std::string text, int origin_rank = -1);
Status invalid_usage(std::string text, int origin_rank = -1);
Status remote_error(std::string text, int origin_rank = -1);
Status timeout_error(std::string text, int origin_rank = -1);

/// A value or the Status that says why there is none.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}                                  // NOLINT(google-explicit-constructor)
  Result(Status status) : status_(std::move(status)) { assert(!status_.ok()); }  // NOLINT(google-explicit-constructor)

  [[nodiscard]] bool ok() const { return value_.has_value(); }
  [[nodiscard]] const Status& status() const { return status_; }
  [[nodiscard]] T& value() & { return *value_; }
  [[nodiscard]] const T& value() const& { return *value_; }
  [[nodiscard]] T&& value() && { return std::move(*value_); }
  T* operator->() { return &*value_; }
  const T* operator->() const { return &*value_; }
  T& operator*() & { return *value_; }
  const T& operator*() const& { return *value_; }

 private:
  std::optional<T> value_;
  Status status_;
};

}  // namespace isthmus

/// Returns the Status of `expression` from the enclosing function unless it is ok.
#define ISTHMUS_TRY(expression)                                                                                   \
  do {                                                                                                            \
    if (::isthmus::Status isthmus_try_status = (expression); !isthmus_try_status.ok()) return isthmus_try_status; \
  } while (false)

#define ISTHMUS_CONCAT_INNER(a, b) a##b
#define ISTHMUS_CONCAT(a, b) ISTHMUS_CONCAT_INNER(a, b)

/// Declares `target` from a Result, or returns its Status from the enclosing function:
/// ISTHMUS_ASSIGN(auto plan, builder.finish());
#define ISTHMUS_ASSIGN(target, expression) ISTHMUS_ASSIGN_INNER(ISTHMUS_CONCAT(isthmus_result_, __LINE__), target, expression)
#define ISTHMUS_ASSIGN_INNER(name, target, expression) \
  auto name = (expression);                            \
  if (!name.ok()) return name.status();                \
  target = std::move(name).value()
